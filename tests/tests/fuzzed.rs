//! The properties of the fuzz targets (`fuzz/`) on their seeds, and on seeds with bytes changed: what can be had of fuzzing
//! with any toolchain, in seconds.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(unreachable_pub, reason = "the properties are a crate of their own where they are fuzzed")]

#[path = "../../fuzz/properties/mod.rs"]
mod properties;

use std::path::{Path, PathBuf};
use std::{fs, panic};

/// How often the seeds of a target are changed, unless `STRADSAP_ROUNDS` says it.
const ROUNDS: usize = 2000;

/// A small generator: the same inputs each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Some changes of a seed, a piece of another among them.
    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = (at + 1 + self.below(8)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = b"\0\n\r\" ,:-#9\x7f\x80\xff"[self.below(13)],
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.next() as u8),
                4 => bytes[at..end].fill(0xff),
                5 => drop(bytes.drain(at..end)),
                _ if !other.is_empty() => {
                    let from = self.below(other.len());
                    let to = (from + 1 + self.below(40)).min(other.len());
                    bytes.splice(at..at, other[from..to].iter().copied());
                }
                _ => {}
            }
        }
    }
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn targets_hold_for_their_seeds() {
    for (name, holds) in properties::TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (path, bytes) in seeds {
            eprintln!("{}", path.display());
            holds(&bytes);
        }
    }
}

/// `STRADSAP_TARGET` names the only target; `STRADSAP_SEED` gives other changes.
#[test]
fn targets_hold_for_seeds_with_bytes_changed() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    let rounds = number("STRADSAP_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let mut random = Random(number("STRADSAP_SEED").unwrap_or(1));
    let only = std::env::var("STRADSAP_TARGET").ok();
    for (name, holds) in properties::TARGETS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let seeds = seeds(name);
        for round in 0..rounds {
            let mut bytes = seeds[round % seeds.len()].1.clone();
            let other = random.below(seeds.len());
            random.mutate(&mut bytes, &seeds[other].1);
            if let Err(panic) = panic::catch_unwind(|| holds(&bytes)) {
                eprintln!("{name}, round {round}: {:?}", bytes.escape_ascii().to_string());
                panic::resume_unwind(panic);
            }
        }
    }
}

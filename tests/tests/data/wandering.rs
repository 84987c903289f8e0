//! Random loops over maps: whatever they read, write, insert and remove, they leave what their serial order leaves.

use std::collections::BTreeMap;

use stradsap::prelude::*;
use stradsap::{Element, Error};

use super::pool::{Rng, made_lists, made_map};
use crate::jobs::runner::seeds;
use crate::seen::{Seen, without_worker};

type Result = stradsap::Result<()>;

/// One access: to which DDS, by which key, how.
#[derive(Clone, Copy, Debug, Element)]
struct Op {
    dds: u32,
    key: u32,
    kind: u32,
}

const MOST: usize = 4;
const KINDS: usize = 6;
const ROWS: usize = 50;
/// Reads one entry, and writes the one that its value points to: nobody can foresee it.
const INDIRECT: u32 = 6;

/// What a plain map of lists is called with.
struct Lists(BTreeMap<u32, Vec<u64>>);

impl std::ops::Index<&u32> for Lists {
    type Output = [u64];
    fn index(&self, key: &u32) -> &[u64] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Lists {
    fn insert(&mut self, key: u32, value: u64) {
        self.0.entry(key).or_default().push(value);
    }

    fn remove(&mut self, key: &u32) -> Vec<u64> {
        self.0.remove(key).unwrap_or_default()
    }

    fn get_mut(&mut self, key: &u32) -> &mut [u64] {
        self.0.get_mut(key).map_or(&mut [], Vec::as_mut_slice)
    }
}

/// One iteration, on views or on plain maps.
macro_rules! iteration {
    ($i:expr, $ops:expr, $failing:expr, [$a:ident, $b:ident, $c:ident, $d:ident]) => {{
        let mut so_far = $i as u64 + 1;
        for op in $ops {
            let name = format!("k{}", op.key);
            match (op.dds, op.kind) {
                // Values of plain numbers.
                (0, 0) => so_far ^= $a.get(&op.key).copied().unwrap_or(1),
                (0, 1) => {
                    if let Some(x) = $a.get_mut(&op.key) {
                        *x = x.wrapping_mul(31) ^ so_far;
                    }
                }
                (0, 2) => *$a.entry(op.key).or_insert(so_far) ^= 1,
                (0, 3) => so_far ^= $a.insert(op.key, so_far).unwrap_or(2),
                (0, 4) => so_far ^= $a.remove(&op.key).unwrap_or(3),
                (0, 5) => so_far ^= u64::from($a.contains_key(&op.key)),
                (0, _) => {
                    let to = ($a.get(&op.key).copied().unwrap_or(5) % 40) as u32;
                    *$a.entry(to).or_insert(1) ^= so_far;
                }
                // Names, with rows of floats.
                (1, 0 | 5) => so_far ^= $b.get(name.as_str()).map_or(1, |row: &[f32; 3]| u64::from(row[0].to_bits())),
                (1, 1 | 6) => {
                    if let Some(row) = $b.get_mut(name.as_str()) {
                        row[1] = row[1] * 0.5 + (so_far % 97) as f32;
                        row[0] += row[1];
                    }
                }
                (1, 2) => $b.entry(name).and_modify(|row| row[2] += 1.0).or_insert([0.25; 3])[0] += 0.1,
                (1, 3) => {
                    $b.insert(name, [(so_far % 1000) as f32; 3]);
                }
                (1, _) => {
                    $b.remove(name.as_str());
                }
                // Lists.
                (2, 0 | 6) => so_far = $c[&op.key].iter().fold(so_far, |all, x| all.rotate_left(5) ^ x),
                (2, 1) => $c.get_mut(&op.key).iter_mut().for_each(|x| *x ^= so_far),
                (2, 2 | 3) => $c.insert(op.key, so_far),
                (2, 4) => so_far ^= $c.remove(&op.key).len() as u64,
                (2, _) => so_far ^= $c[&op.key].len() as u64,
                // A vector.
                _ => {
                    let row: &mut f64 = &mut $d[op.key as usize % ROWS];
                    *row = *row * 0.75 + (so_far % 1009) as f64;
                    so_far ^= row.to_bits();
                }
            }
        }
        if $failing.is_some_and(|every: u64| so_far % every == 0) {
            panic!("this iteration panics on purpose");
        }
    }};
}

struct Maps {
    data: DVector<Vec<Op>>,
    a: DMap<u32, u64>,
    b: DMap<String, [f32; 3]>,
    c: DMultiMap<u32, u64>,
    d: DVector<f64>,
}

#[derive(Clone)]
struct Plain {
    a: BTreeMap<u32, u64>,
    b: BTreeMap<String, [f32; 3]>,
    c: BTreeMap<u32, Vec<u64>>,
    d: Vec<f64>,
}

impl Plain {
    fn replay(&mut self, data: &[Vec<Op>], order: impl Iterator<Item = usize>) {
        let Plain { a, b, c, d } = self;
        let mut lists = Lists(std::mem::take(c));
        for i in order {
            iteration!(i, &data[i], None, [a, b, lists, d]);
        }
        *c = lists.0;
    }
}

impl Maps {
    fn new(session: &Session, data: &[Vec<Op>], plain: &Plain) -> stradsap::Result<Self> {
        let pairs = plain.c.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, *value)));
        Ok(Maps {
            data: DVector::from_vec(session, data.to_vec())?,
            a: DMap::from_entries(session, plain.a.clone())?,
            b: DMap::from_entries(session, plain.b.clone())?,
            c: DMultiMap::from_pairs(session, pairs)?,
            d: DVector::from_vec(session, plain.d.clone())?,
        })
    }

    fn run(&mut self, order: Order, failing: Option<u64>) -> stradsap::Result<LoopReport> {
        let Maps { data, a, b, c, d } = self;
        async_parallel_for!(
            0..data.len(),
            [failing, &data, &mut a, &mut b, &mut c, &mut d],
            |i| {
                iteration!(i, &data[i], failing, [a, b, c, d]);
            },
            order = order
        )
    }

    fn digests(&self) -> stradsap::Result<[String; 4]> {
        Ok([self.a.digest()?, self.b.digest()?, self.c.digest()?, self.d.digest()?])
    }
}

fn data(rng: &mut Rng, n: usize, indirect: bool) -> Vec<Vec<Op>> {
    // Few keys for all, or many: then most iterations meet nobody.
    let keys = [5, 40, 400, 3000][rng.below(4)];
    // All DDSs, or some of them alone.
    let some: Vec<u32> = (0..4).filter(|_| rng.one_in(2)).collect();
    // Mostly reads, mostly writes of what is there, or anything.
    let kinds: &[u32] = [&[0, 5, 0, 1][..], &[1, 1, 0, 2], &[0, 1, 2, 3, 4, 5]][rng.below(3)];
    let mut op = || {
        let dds = if some.is_empty() { rng.below(4) as u32 } else { some[rng.index(&some)] };
        let kind = if indirect && rng.one_in(9) { INDIRECT } else { kinds[rng.index(kinds)] };
        assert!(kind == INDIRECT || (kind as usize) < KINDS);
        Op { dds, key: (rng.below(keys) as u32).min(rng.below(2 * keys) as u32), kind }
    };
    (0..n).map(|i| (0..1 + i % MOST).map(|_| op()).collect()).collect()
}

fn random_loop(session: &Session, seed: u64, seen: &mut Seen) -> Result {
    let mut rng = Rng::new(seed + 1_000_000);
    let n = [1, 20, 300, 2500][rng.below(4)];
    let (indirect, preserve) = (rng.one_in(3), rng.one_in(3));
    let (mut steps, order) = (data(&mut rng, n, indirect), if preserve { Order::Preserve } else { Order::Any });
    let filled = if rng.one_in(3) { 0 } else { rng.below(500) as u32 };
    let mut plain = Plain {
        a: (0..filled).map(|k| (k * 2, u64::from(k))).collect(),
        b: (0..filled).map(|k| (format!("k{}", k * 3), [k as f32; 3])).collect(),
        c: (0..filled / 2).map(|k| (k, (0..u64::from(1 + k % 3)).collect())).collect(),
        d: (0..ROWS).map(|k| k as f64).collect(),
    };
    let mut maps = Maps::new(session, &steps, &plain)?;
    for round in 0..3 {
        let report = maps.run(order, None)?;
        seen.report("loop", &report);
        if preserve {
            plain.replay(&steps, 0..n);
        } else {
            let mut each = vec![0u8; n];
            report.serial_order().for_each(|i| each[i] += 1);
            assert!(each.iter().all(|times| *times == 1), "the order is no permutation");
            plain.replay(&steps, report.serial_order());
        }
        let bits = |rows: &[f64]| rows.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&maps.d.to_vec()?), bits(&plain.d));
        made_map(session, &maps.a, &plain.a, seen)?;
        made_map(session, &maps.b, &plain.b, seen)?;
        // What is empty is no key of a plain map of lists, but may have been one before.
        made_lists(&maps.c, &plain.c, seen)?;
        // Some iterations do something else from now on.
        if round == 0 && rng.one_in(2) {
            let (at, other) = (rng.index(&steps), data(&mut rng, 1, indirect));
            steps[at] = other[0].clone();
            maps.data.set(at, steps[at].clone())?;
        }
    }
    // One that fails leaves everything.
    let before = maps.digests()?;
    match maps.run(order, Some([2, 50, 1000][rng.below(3)])) {
        Ok(_) => seen.record("no failure", maps.digests()?),
        Err(error) => {
            assert!(matches!(error, Error::Panic { .. }), "{error}");
            assert_eq!(maps.digests()?, before);
            seen.record("failure", without_worker(session, &error.to_string()));
        }
    }
    Ok(())
}

pub(crate) fn random_loops_over_maps(session: &Session, seen: &mut Seen) -> Result {
    for seed in seeds(28, 3_000) {
        let context =
            format!("STRADSAP_SEED={seed} cargo test -p stradsap-tests --test workers -- data::random_loops_over_maps");
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| random_loop(session, seed, seen)));
        match ran {
            Ok(ended) => ended.inspect_err(|_| eprintln!("{context}"))?,
            Err(panic) => {
                eprintln!("{context}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    Ok(())
}

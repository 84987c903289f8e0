//! Checkpoints as a program uses them, and as a disk may leave them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::session;
use stradsap::prelude::*;
use stradsap::{Checkpoint, Result};

#[derive(Clone, Debug, PartialEq, Element)]
struct Word {
    text: String,
    counts: Vec<u16>,
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct State {
    rate: f64,
    seed: u64,
}

fn words() -> Vec<Word> {
    (0..5).map(|i| Word { text: "x".repeat(i), counts: vec![i as u16; 5 - i] }).collect()
}

/// The manifests in a folder; beside them there are data files and nothing else.
fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let all = all.filter(|name| name != ".stradsap.lock");
    let (mut names, others): (Vec<_>, Vec<_>) = all.partition(|name| name.ends_with(".checkpoint"));
    assert!(others.iter().all(|name| name.ends_with(".data") && name.len() == 64 + 5), "{others:?}");
    names.sort();
    names
}

/// The data files in a folder, by their sizes.
fn data(folder: &Path) -> Vec<(u64, PathBuf)> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let data = all.filter(|path| path.extension().is_some_and(|extension| extension == "data"));
    let mut data: Vec<_> = data.map(|path| (fs::metadata(&path).unwrap().len(), path)).collect();
    data.sort();
    data
}

fn file(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("step-{step:012}.checkpoint"))
}

/// Pairs of numbers that are plain: as elements they are stored as their memory, as a map's entries they aren't.
#[test]
fn vectors_and_maps_of_pairs_come_back() {
    let (folder, session) = (tempfile::tempdir().unwrap(), session(2));
    let pairs: Vec<(u32, u32)> = (0..3000).map(|i| (i, i * i)).collect();
    let x = DVector::from_vec(&session, pairs.clone()).unwrap();
    let map = DMap::from_entries(&session, pairs.clone()).unwrap();
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    checkpoints.begin().unwrap();
    checkpoints.save(1, &(), &[("x", &x), ("map", &map)]).unwrap();
    drop(checkpoints);
    let checkpoint = Checkpoints::new(folder.path(), 1).unwrap().resume().unwrap().unwrap();
    assert_eq!(checkpoint.vector::<(u32, u32)>(&session, "x").unwrap().to_vec().unwrap(), pairs);
    let mut back = checkpoint.map::<u32, u32>(&session, "map").unwrap().to_vec().unwrap();
    back.sort_unstable();
    assert_eq!(back, pairs);
}

/// Trains on ratings, going on where checkpoints end, up to this many epochs; gives the model's digests.
fn train(folder: &Path, threads: usize, resume: bool, epochs: u64) -> Result<[String; 2]> {
    let session = session(threads);
    let ratings = DVector::from_vec(&session, crate::common::ratings(2000, 50, 20))?;
    let mut p = DVector::from_fn(&session, 50, |i| [0.1 * i as f32 + 0.5; 4])?;
    let mut q = DVector::from_fn(&session, 20, |i| [0.2 * i as f32 + 0.5; 4])?;
    let mut checkpoints = Checkpoints::new(folder, 2)?;
    let mut first = 0;
    if resume {
        let checkpoint = checkpoints.resume()?.unwrap();
        (p, q) = (checkpoint.vector(&session, "p")?, checkpoint.vector(&session, "q")?);
        first = checkpoint.step();
    } else {
        checkpoints.begin()?;
    }
    let rate = 0.01f32;
    for epoch in first..epochs {
        async_parallel_for!(0..ratings.len(), [rate, &ratings, &mut p, &mut q], |n| {
            let r = ratings[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let e = r.stars - kernels::dot(pu, qi);
            for k in 0..4 {
                let (a, b) = (pu[k], qi[k]);
                pu[k] += rate * (e * b - 0.02 * a);
                qi[k] += rate * (e * a - 0.02 * b);
            }
        })?;
        if checkpoints.due(epoch + 1) {
            checkpoints.save(epoch + 1, &(), &[("p", &p), ("q", &q)])?;
        }
    }
    checkpoints.finish()?;
    Ok([p.digest()?, q.digest()?])
}

#[test]
fn a_run_that_goes_on_ends_with_the_same_bits() {
    let (whole, halves) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = train(whole.path(), 2, false, 9).unwrap();
    assert_ne!(train(halves.path(), 1, false, 5).unwrap(), expected);
    assert_eq!(names(halves.path()), ["step-000000000002.checkpoint", "step-000000000004.checkpoint"]);
    assert_eq!(train(halves.path(), 3, true, 9).unwrap(), expected);
    assert_eq!(names(halves.path()), ["step-000000000006.checkpoint", "step-000000000008.checkpoint"]);
    // Nothing is left to do but the last epoch.
    assert_eq!(train(halves.path(), 2, true, 9).unwrap(), expected);
}

#[test]
fn the_newest_whole_checkpoint_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let expected = train(folder.path(), 2, false, 6).unwrap();
    let newest = file(folder.path(), 6);
    let bytes = fs::read(&newest).unwrap();
    for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        fs::write(&newest, &bytes[..length]).unwrap();
        let message = Checkpoint::open(&newest).unwrap_err().to_string();
        assert!(message.starts_with(newest.to_str().unwrap()), "{message}");
        let mut checkpoints = Checkpoints::new(folder.path(), 2).unwrap();
        assert_eq!(checkpoints.resume().unwrap().unwrap().step(), 4, "cut to {length} bytes");
    }
    assert_eq!(train(folder.path(), 2, true, 6).unwrap(), expected);
    assert_eq!(Checkpoint::open(&newest).unwrap().step(), 6);

    fs::write(&newest, "").unwrap();
    fs::write(file(folder.path(), 4), "").unwrap();
    let error = Checkpoints::new(folder.path(), 2).unwrap().resume().unwrap_err().to_string();
    let said = "damaged or cut short: it is too short for a manifest";
    assert_eq!(error, format!("{}: {said}", newest.display()));
}

#[test]
fn every_flipped_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(1);
    let x = DVector::from_vec(&session, vec![1.5f32, -0.0, f32::NAN]).unwrap();
    let w = DVector::from_vec(&session, words()).unwrap();
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    checkpoints.save(1, &State { rate: 0.5, seed: 7 }, &[("x", &x), ("words", &w)]).unwrap();
    checkpoints.finish().unwrap();
    let manifest = file(folder.path(), 1);
    let data = data(folder.path());
    assert_eq!((data.len(), data[0].0), (2, 12));
    let mut said = std::collections::BTreeSet::new();
    for path in [&manifest, &data[0].1, &data[1].1] {
        let bytes = fs::read(path).unwrap();
        assert!(bytes.len() < 3000, "{}", bytes.len());
        let damaged = |bytes: &[u8]| {
            fs::write(path, bytes).unwrap();
            let message = Checkpoint::open(&manifest).unwrap_err().to_string();
            let (name, problem) = message.split_once(": ").unwrap();
            assert_eq!(name, path.to_str().unwrap());
            assert!(!problem.contains('\n'));
            problem.to_owned()
        };
        for i in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[i] ^= 0xff;
            said.insert(damaged(&flipped));
        }
        damaged(&[&bytes[..], &[0]].concat());
        fs::write(path, &bytes).unwrap();
    }
    for part in ["x", "words"] {
        let problem = format!("damaged: it doesn't match its checksum (`{part}` of step-000000000001.checkpoint)");
        assert!(said.contains(&problem), "{said:?}");
    }
    Checkpoint::open(&manifest).unwrap();
}

#[test]
fn what_was_saved_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(1);
    let rows = DVector::from_fn(&session, 10_000, |i| [i as f32, f32::NAN]).unwrap();
    let (w, none) = (DVector::from_vec(&session, words()).unwrap(), DVector::from_vec(&session, vec![0u8; 0]).unwrap());
    let mut checkpoints = Checkpoints::new(folder.path(), 3).unwrap();
    let state = State { rate: f64::MIN_POSITIVE, seed: u64::MAX };
    checkpoints.save(3, &state, &[("rows", &rows), ("words", &w), ("none", &none)]).unwrap();

    let checkpoint = checkpoints.resume().unwrap().unwrap();
    assert_eq!((checkpoint.step(), checkpoint.path()), (3, &*file(folder.path(), 3)));
    assert_eq!(checkpoint.state::<State>().unwrap(), state);
    assert_eq!(checkpoint.vector::<[f32; 2]>(&session, "rows").unwrap().digest().unwrap(), rows.digest().unwrap());
    assert_eq!(checkpoint.vector::<Word>(&session, "words").unwrap().to_vec().unwrap(), words());
    assert!(checkpoint.vector::<u8>(&session, "none").unwrap().is_empty());

    let say = |error: stradsap::Error| error.to_string().split_once(".checkpoint: ").unwrap().1.to_owned();
    let wrong = |error| say(error).split_once("other elements: ").unwrap().1.to_owned();
    assert_eq!(
        say(checkpoint.vector::<f32>(&session, "p").unwrap_err()),
        "it holds no vector `p`; it holds `rows`, `words`, `none`"
    );
    assert!(say(checkpoint.vector::<u8>(&session, "").unwrap_err()).starts_with("it holds no vector ``"));
    assert_eq!(
        wrong(checkpoint.vector::<[f32; 4]>(&session, "rows").unwrap_err()),
        "plain ones of 8 bytes, and plain ones of 16 bytes were expected"
    );
    assert_eq!(
        wrong(checkpoint.vector::<String>(&session, "rows").unwrap_err()),
        "plain ones of 8 bytes, and ones that are not plain were expected"
    );
    assert!(wrong(checkpoint.vector::<String>(&session, "words").unwrap_err()).starts_with("element "));
    assert!(say(checkpoint.state::<String>().unwrap_err()).starts_with("it holds a state of another type: "));
    assert!(say(checkpoint.state::<f64>().unwrap_err()).ends_with("bytes are left over"));
}

#[test]
fn mistakes_are_told_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(1);
    let x = DVector::from_vec(&session, vec![1.5f32]).unwrap();
    assert!(Checkpoints::new(folder.path(), 0).is_err());
    let mut checkpoints = Checkpoints::new(folder.path(), 5).unwrap();
    assert!(checkpoints.resume().unwrap().is_none());
    checkpoints.begin().unwrap();
    for names in [["x", "x"], ["x", ""]] {
        let error = checkpoints.save(5, &(), &names.map(|name| (name, &x as &dyn stradsap::Saved))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }
    checkpoints.save(10, &(), &[("x", &x)]).unwrap();
    checkpoints.finish().unwrap();

    let mut another_run = Checkpoints::new(folder.path(), 5).unwrap();
    let message = another_run.begin().unwrap_err().to_string();
    assert!(message.ends_with("holds checkpoints up to step 10: resume from them, or give a folder without any"));
    let message = another_run.save(5, &(), &[("x", &x)]).unwrap_err().to_string();
    assert!(message.contains("a checkpoint of step 10 is there before step 5"), "{message}");
    assert_eq!(names(folder.path()), ["step-000000000010.checkpoint"]);

    // A write that fails leaves what was there, and is reported when it has failed.
    let in_the_way = folder.path().join("step-000000000015.checkpoint.unfinished");
    fs::create_dir(&in_the_way).unwrap();
    checkpoints.save(15, &(), &[("x", &x)]).unwrap();
    let message = checkpoints.finish().unwrap_err().to_string();
    assert!(message.starts_with(in_the_way.to_str().unwrap()), "{message}");
    assert_eq!(checkpoints.resume().unwrap().unwrap().step(), 10);
    checkpoints.finish().unwrap();

    let many = vec![0u8; (64 << 20) + 1];
    let message = checkpoints.save(20, &many, &[]).unwrap_err().to_string();
    assert!(message.ends_with("and at most 67108864 may: put it into a DVector"), "{message}");
}

/// A step that changes a vector.
type Change = (&'static str, fn(&mut DVector<f32>) -> Result<()>);

/// Whatever changes a vector is noticed: a checkpoint never holds what was there before.
#[test]
fn every_change_is_written() {
    let changes: [Change; 4] = [
        ("set", |x| x.set(3, 0.25)),
        ("a loop in step", |x| async_parallel_for!(0..x.len(), [&mut x], |i| x[i] += 1.0).map(drop)),
        ("a loop that scatters", |x| {
            async_parallel_for!(0..x.len(), [&mut x], |i| {
                let j = i * 7 % 100;
                x[j] = 0.5 * x[j] + x[i];
            })
            .map(drop)
        }),
        ("one that fails half-way and leaves all as it was", |x| {
            let outcome = async_parallel_for!(0..x.len(), [&mut x], |i| {
                x[i] = 7.0;
                assert!(i != 50);
            });
            assert!(outcome.is_err());
            Ok(())
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let session = session(2);
    let mut x = DVector::from_fn(&session, 100, |i| i as f32).unwrap();
    let mut shared = DVector::from_fn(&session, 10, |i| [i as f32; 4]).unwrap();
    let input = DVector::from_fn(&session, 40, |i| i as u32).unwrap();
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    let mut step = 0;
    let mut digests = std::collections::BTreeSet::new();
    let mut check = |x: &DVector<f32>, shared: &DVector<[f32; 4]>, what: &str| {
        step += 1;
        checkpoints.save(step, &(), &[("x", x), ("shared", shared)]).unwrap();
        let checkpoint = checkpoints.resume().unwrap().unwrap();
        assert_eq!(checkpoint.step(), step);
        let digest = x.digest().unwrap() + &shared.digest().unwrap();
        let saved: [String; 2] = [
            checkpoint.vector::<f32>(&session, "x").unwrap().digest().unwrap(),
            checkpoint.vector::<[f32; 4]>(&session, "shared").unwrap().digest().unwrap(),
        ];
        assert_eq!(saved.concat(), digest, "{what}");
        digests.insert(digest);
    };
    check(&x, &shared, "at first");
    for _ in 0..3 {
        for (what, change) in changes {
            change(&mut x).unwrap();
            check(&x, &shared, what);
        }
        for policy in [SyncPolicy::Bsp, SyncPolicy::Hybrid] {
            sync_parallel_for!(
                input,
                4,
                [&mut shared],
                |batch| {
                    for &i in batch {
                        shared[i % 10].add(&[1.0; 4]);
                    }
                },
                policy
            )
            .unwrap();
            check(&x, &shared, "minibatches");
        }
    }
    assert!(digests.len() > 12, "{}", digests.len());
}

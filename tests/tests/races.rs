//! Loops of each kind on three threads, small enough for sanitizers (`tests/sanitize.sh`) and for Miri.

use std::collections::BTreeMap;

use crate::common::{WAYS, Way, mix, session};
use crate::random::sequences::{self, Length};
use stradsap::prelude::*;

const N: usize = if cfg!(miri) { 60 } else { 2500 };

/// Rows with numbers and with text, shared and in step, reductions, a failure, a change of pattern.
fn exercise(way: Way, order: Order) {
    let session = session(3);
    let (rows, cols) = if way == Way::Aligned { (N, N) } else { (30, 50) };
    let mut pairs = DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap();
    let mut x = DVector::from_fn(&session, rows, |i| [i as u64; 4]).unwrap();
    let mut y = DVector::from_fn(&session, cols, |i| vec![i as u64]).unwrap();
    let mut own = DVector::from_fn(&session, N, |i| i as u64).unwrap();
    let (sum, low) = (session.sum(0.0f64), session.min(u64::MAX));
    let (mut px, mut py, mut pown) = (x.to_vec().unwrap(), y.to_vec().unwrap(), own.to_vec().unwrap());
    let strategy = way.option();
    let never = N;
    let mut run = |bad: usize, pairs: &DVector<[u32; 2]>| {
        async_parallel_for!(
            0..N,
            [bad, &pairs, &mut x, &mut y, &mut own, &sum, &low],
            |i| {
                let [a, b] = pairs[i];
                let seen = y[b][0];
                x[a][i % 4] = mix(x[a][i % 4] ^ seen);
                y[b][0] = mix(seen ^ i as u64);
                if y[b].len() < 5 {
                    y[b].push(i as u64);
                }
                own[i] ^= x[a][i % 4];
                sum.add((seen % 1000) as f64);
                low.min(seen);
                if i == bad { Err("as asked") } else { Ok(()) }
            },
            strategy = strategy,
            order = order,
            parts = 4
        )
    };
    for call in 0..4 {
        if call == 2 {
            assert!(run(N / 2, &pairs).is_err());
            for i in (0..N).step_by(100) {
                let [a, b] = pairs.get(i).unwrap();
                pairs.set(i, if way == Way::Aligned { [a, b] } else { [(a + 17) % rows as u32, b] }).unwrap();
            }
        }
        let report = run(never, &pairs).unwrap();
        assert_eq!(report.strategy(), way.strategy());
        let data = pairs.to_vec().unwrap();
        for i in report.serial_order() {
            let [a, b] = data[i].map(|k| k as usize);
            let seen = py[b][0];
            px[a][i % 4] = mix(px[a][i % 4] ^ seen);
            py[b][0] = mix(seen ^ i as u64);
            if py[b].len() < 5 {
                py[b].push(i as u64);
            }
            pown[i] ^= px[a][i % 4];
        }
    }
    assert!(x.to_vec().unwrap() == px && y.to_vec().unwrap() == py && own.to_vec().unwrap() == pown, "{way:?}");
}

#[test]
fn loops_of_each_strategy() {
    for way in WAYS {
        exercise(way, Order::Any);
    }
    exercise(Way::Coloured, Order::Preserve);
}

#[test]
fn threads_that_come_and_go() {
    let session = session(1);
    let mut x = DVector::from_fn(&session, 40, |_| 0u64).unwrap();
    for threads in [3, 2, 1, 3] {
        session.set_threads(threads).unwrap();
        async_parallel_for!(
            0..N,
            [&mut x],
            |i| {
                x[i % 40] += 1;
                x[i * i % 40] += 1;
            },
            strategy = Grid,
            parts = 4
        )
        .unwrap();
    }
    assert_eq!(x.iter().unwrap().sum::<u64>(), 4 * 2 * N as u64);
}

/// Read off a sample: recorded, grouped and laid out by all threads.
#[test]
#[cfg_attr(miri, ignore = "too long")]
fn a_long_loop() {
    let session = session(3);
    let n = 40_000;
    let data = DVector::from_vec(&session, crate::common::ratings(n, 400, 300)).unwrap();
    let mut p = DVector::from_fn(&session, 400, |_| 1u64).unwrap();
    let mut q = DVector::from_fn(&session, 300, |_| 1u64).unwrap();
    for call in 0..2 {
        let report = async_parallel_for!(
            0..n,
            [&data, &mut p, &mut q],
            |i| {
                let r = data[i];
                p[r.user] += 1;
                q[r.item] += 1;
            },
            strategy = Grid
        )
        .unwrap();
        assert_eq!((report.reused(), report.strategy()), (call > 0, Strategy::Grid));
    }
    assert_eq!(p.iter().unwrap().sum::<u64>() + q.iter().unwrap().sum::<u64>(), 700 + 4 * n as u64);
}

#[test]
fn sequences_of_loops() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let sessions = [1, 3].map(|threads| std::rc::Rc::new(session(threads)));
        sequences::check(5_000_000 + seed, Length::Short, &sessions);
    }
}

#[test]
fn maps_and_lists() {
    let session = session(3);
    let word = |i: usize| format!("word {}", mix(i as u64) % 30);
    let words = DVector::from_fn(&session, N, word).unwrap();
    let mut counts = DMap::<String, u64>::new(&session).unwrap();
    let mut lists = DMultiMap::<u32, u32>::new(&session).unwrap();
    let (mut counted, mut listed) = (BTreeMap::<String, u64>::new(), BTreeMap::<u32, Vec<u32>>::new());
    for round in 0..2u32 {
        let report = async_parallel_for!(
            0..N,
            [round, &words, &mut counts, &mut lists],
            |i| {
                *counts.entry(words[i].clone()).or_insert(7) += 1;
                let key = i as u32 % 11;
                if i % 13 == 5 && lists.contains_key(&key) {
                    drop(lists.remove(&key));
                } else {
                    lists.insert(key, i as u32 + round);
                }
            },
            parts = 4
        )
        .unwrap();
        for i in report.serial_order() {
            *counted.entry(word(i)).or_insert(7) += 1;
            let key = i as u32 % 11;
            if i % 13 == 5 && listed.contains_key(&key) {
                listed.remove(&key);
            } else {
                listed.entry(key).or_default().push(i as u32 + round);
            }
        }
        assert_eq!(counts.to_vec().unwrap().into_iter().collect::<BTreeMap<_, _>>(), counted);
        assert_eq!(lists.to_vec().unwrap().into_iter().collect::<BTreeMap<_, _>>(), listed);
    }
}

#[test]
fn minibatches_under_each_policy() {
    let session = session(3);
    let data = DVector::from_fn(&session, N, |i| (mix(i as u64) % 20) as u32).unwrap();
    for policy in
        [SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 1 }, SyncPolicy::Hybrid, SyncPolicy::ModelAverage { every: 2 }]
    {
        let mut rows = DVector::from_fn(&session, 20, |i| [i as f32; 5]).unwrap();
        let mut counts = DVector::from_fn(&session, 20, |_| 0u64).unwrap();
        for _ in 0..2 {
            sync_parallel_for!(
                data,
                8,
                [&mut rows, &mut counts],
                |batch| {
                    for &row in batch {
                        rows[row].scale(0.5);
                        rows[row].axpy(0.25, &[1.0; 5]);
                        counts[row].add(1);
                    }
                },
                policy
            )
            .unwrap();
        }
        let counted = counts.iter().unwrap().sum::<u64>();
        let exact = matches!(policy, SyncPolicy::Bsp | SyncPolicy::Ssp { .. });
        // Under `Hybrid` additions may meet; averages are of copies that have had a part each.
        assert!(counted == 2 * N as u64 || !exact && (1..=2 * N as u64).contains(&counted), "{policy:?}: {counted}");
        assert!(rows.iter().unwrap().all(|row| row.iter().all(|x| (0.0..=20.0).contains(x))), "{policy:?}");
    }
}

#[test]
#[allow(clippy::redundant_closure_for_method_calls, reason = "closures as programs write them")]
fn operators_on_what_loops_left() {
    let session = session(3);
    let mut x = DVector::from_fn(&session, N, |i| format!("{}", mix(i as u64) % 50)).unwrap();
    async_parallel_for!(0..N, [&mut x], |i| x[i].push('!')).unwrap();
    let plain: Vec<String> = (0..N).map(|i| format!("{}!", mix(i as u64) % 50)).collect();
    let long = x.filter(|text| text.len() > 2).flat_map(|text| vec![text.clone(); 2]).collect().unwrap();
    let expected: Vec<String> =
        plain.iter().filter(|text| text.len() > 2).flat_map(|text| vec![text.clone(); 2]).collect();
    assert_eq!(long.to_vec().unwrap(), expected);
    let mut sorted = plain.clone();
    sorted.sort();
    assert_eq!(x.sort_by_key(|text| text.clone()).unwrap().to_vec().unwrap(), sorted);
    let mut counted = BTreeMap::<String, u64>::new();
    plain.iter().for_each(|text| *counted.entry(text.clone()).or_default() += 1);
    let counts = x.count_by_key(|text| text.clone()).unwrap();
    assert_eq!(counts.to_vec().unwrap().into_iter().collect::<BTreeMap<_, _>>(), counted);
    let joined = x.join(&counts, |text| text.clone()).map(|(_, count)| *count).to_vec().unwrap();
    assert_eq!(joined, plain.iter().map(|text| counted[text]).collect::<Vec<_>>());
    x.transform(|text| text.insert(0, '-')).unwrap();
    let by = 3usize;
    let lengths = with!([by], x.map(|text| text.len() * by)).to_vec().unwrap();
    assert_eq!(lengths, plain.iter().map(|text| (text.len() + 1) * 3).collect::<Vec<_>>());
}

#[test]
fn relaxed_state_and_scratch() {
    let session = session(3);
    let mut rows = DVector::from_fn(&session, 20, |_| Vec::<u32>::new()).unwrap();
    let (totals, means) = (session.relaxed_vector(vec![0u64; 3]), session.relaxed_vector(vec![0.5f64; 2]));
    let report = async_parallel_for!(
        0..N,
        [&mut rows, &totals, &means],
        |i, texts| {
            let (first, second) = (&means[0usize], &means[1usize]);
            assert!(*first + *second == means.as_slice().iter().sum::<f64>() && *first >= 0.5);
            means.add(i % 2, 0.25);
            texts.push(format!("iteration {i} after {}", totals[i % 3]));
            totals.add(i % 3, 1);
            let row = &mut rows[i * i % 20];
            row.push(texts.len() as u32);
            row.truncate(9);
        },
        scratch = vec![format!("{}", totals[0usize])],
        parts = 4,
        staleness = 1
    )
    .unwrap();
    assert!(report.blocks() > 0);
    assert_eq!(totals.to_vec().iter().sum::<u64>(), N as u64);
    assert_eq!(means.to_vec().iter().sum::<f64>(), 1.0 + 0.25 * N as f64);
}

/// Beside the places of `workers`, where sanitizers and Miri see them.
#[test]
fn sound_programs() {
    for threads in [1, 2, 4] {
        let session = session(threads);
        for scenario in crate::sound::SCENARIOS {
            let mut seen = crate::seen::Seen::default();
            (scenario.run)(&session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
    }
}

#[test]
fn outcomes() {
    let mut expected = None;
    for threads in [1, 2, 4] {
        let session = session(threads);
        let mut seen = crate::seen::Seen::default();
        for scenario in crate::outcomes::SCENARIOS {
            (scenario.run)(&session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
        assert_eq!(&seen, expected.get_or_insert_with(|| seen.clone()), "{threads} threads");
    }
}

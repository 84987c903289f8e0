//! What iterations see of relaxed state, checked against what they say that they saw: nothing here knows how plans are
//! made.

use stradsap::prelude::*;

const KINDS: usize = 3;

/// What was added before each block, and what each block saw.
struct Seen {
    /// Of each block, how many blocks had been added up in what it started from.
    blocks_seen: Vec<usize>,
    strata: usize,
    mean_error: f64,
    max_error: f64,
}

/// Runs a loop whose iterations write down what they see, and finds out what each block saw.
fn look(threads: usize, staleness: usize, pairs: &[[u32; 2]], parts: usize) -> Seen {
    let session = Session::builder().threads(threads).build().unwrap();
    let n = pairs.len();
    let pairs = DVector::from_vec(&session, pairs.to_vec()).unwrap();
    let mut left = DVector::from_fn(&session, 90, |_| 0u64).unwrap();
    let mut right = DVector::from_fn(&session, 60, |_| 0u64).unwrap();
    let mut saw = DVector::from_fn(&session, n, |_| [0u64; KINDS]).unwrap();
    let mut nth = DVector::from_fn(&session, n, |_| 0u32).unwrap();
    let start = vec![5u64, 6, 7];
    let totals = session.relaxed_vector(start.clone());
    let added = |i: usize, k: usize| ((i * (k + 3)) % 11 + 1) as u64;
    let report = async_parallel_for!(
        0..n,
        [&pairs, &mut left, &mut right, &mut saw, &mut nth, &totals],
        |i, count| {
            let [a, b] = pairs[i];
            left[a] += 1;
            right[b] += 1;
            saw[i] = [totals[0usize], totals[1usize], totals[2usize]];
            *count += 1;
            nth[i] = *count;
            for k in 0..KINDS {
                totals.add(k, ((i * (k + 3)) % 11 + 1) as u64);
            }
        },
        scratch = 0u32,
        staleness = staleness,
        parts = parts
    )
    .unwrap();

    let (saw, nth) = (saw.to_vec().unwrap(), nth.to_vec().unwrap());
    let order: Vec<usize> = report.serial_order().collect();
    // What all blocks before each have made of the totals, in the serial order.
    let mut prefixes = vec![];
    let mut now: [u64; KINDS] = start.try_into().unwrap();
    let mut blocks_seen: Vec<usize> = Vec::new();
    let mut own = now;
    let (mut distances, mut seen_at_start) = (Vec::new(), Vec::new());
    for &i in &order {
        if nth[i] == 1 {
            prefixes.push(now);
            // Every prefix differs from all others: additions are above 0.
            let before = prefixes.iter().position(|&prefix| prefix == saw[i]);
            blocks_seen.push(before.unwrap_or_else(|| panic!("iteration {i} saw {:?}, which never was", saw[i])));
            own = saw[i];
            distances.push(now.iter().zip(&saw[i]).map(|(a, b)| a.abs_diff(*b)).sum::<u64>());
            seen_at_start.push(saw[i]);
        }
        assert_eq!(saw[i], own, "iteration {i} doesn't see what its block has added");
        for k in 0..KINDS {
            own[k] += added(i, k);
            now[k] += added(i, k);
        }
    }
    assert_eq!(totals.to_vec(), now);
    assert_eq!(blocks_seen.len(), report.blocks());
    let stale = &report.staleness()[0];
    assert_eq!((stale.name, stale.strata), ("totals", staleness));
    // The s-error, by its definition.
    let size = now.iter().sum::<u64>() as f64;
    let mean = distances.iter().sum::<u64>() as f64 / size / distances.len() as f64;
    let max = *distances.iter().max().unwrap() as f64 / size;
    assert!(
        (stale.mean_error - mean).abs() < 1e-12 && (stale.max_error - max).abs() < 1e-12,
        "{stale:?}, {mean}, {max}"
    );
    Seen { blocks_seen, strata: report.strata(), mean_error: stale.mean_error, max_error: stale.max_error }
}

fn pairs(n: usize) -> Vec<[u32; 2]> {
    (0..n).map(|i| [(i * 7919 % 90) as u32, (i * 104_729 / 7 % 60) as u32]).collect()
}

#[test]
fn blocks_see_whole_strata_of_those_before() {
    for (n, parts) in [(12_000, 6), (30_000, 8), (3000, 3), (6000, 40)] {
        let pairs = pairs(n);
        // As fresh as can be: the first block of each stratum sees all before it, the others as much as that.
        let fresh = look(1, 1, &pairs, parts);
        let mut starts = fresh.blocks_seen.clone();
        starts.dedup();
        assert_eq!(starts.len(), fresh.strata, "{parts} parts");
        assert!(starts.len() > 1 && starts[0] == 0 && starts.is_sorted());
        for (block, &seen) in fresh.blocks_seen.iter().enumerate() {
            let own = starts.partition_point(|&start| start <= block) - 1;
            assert_eq!(seen, starts[own], "block {block}");
        }
        for staleness in [2, 3, 50] {
            for threads in [1, 3] {
                let stale = look(threads, staleness, &pairs, parts);
                for (block, &seen) in stale.blocks_seen.iter().enumerate() {
                    let own = starts.partition_point(|&start| start <= block) - 1;
                    assert_eq!(seen, starts[(own + 1).saturating_sub(staleness)], "block {block}, {staleness}");
                }
                assert!(stale.mean_error >= fresh.mean_error && stale.max_error >= fresh.max_error);
            }
        }
    }
}

#[test]
fn a_serial_loop_is_never_stale() {
    let session = Session::builder().threads(2).build().unwrap();
    let totals = session.relaxed_vector(vec![0u32; 2]);
    let mut x = DVector::from_fn(&session, 50, |_| 0u32).unwrap();
    let report = async_parallel_for!(
        0..500,
        [&mut x, &totals],
        |i| {
            assert_eq!(totals[0usize] as usize, i);
            totals.add(0usize, 1);
            x[i % 50] = totals[0usize];
        },
        strategy = Serial
    )
    .unwrap();
    assert_eq!((report.strata(), report.staleness()[0].max_error), (1, 0.0));
    assert_eq!((totals.to_vec(), x.get(49).unwrap()), (vec![500, 0], 500));
}

#[test]
fn two_loops_add_up() {
    let session = Session::builder().threads(2).build().unwrap();
    let (mean, values) = (session.relaxed(1.0f64), session.relaxed_vector(vec![0i32; 3]));
    let x = DVector::from_fn(&session, 1000, |i| i as f64).unwrap();
    for _ in 0..2 {
        async_parallel_for!(0..x.len(), [&x, &mean, &values], |i| {
            mean.add(x[i] / 1000.0);
            values.add(i % 3, -1);
        })
        .unwrap();
    }
    assert!((mean.get() - 1000.0).abs() < 1e-9);
    assert_eq!(values.to_vec(), [-668, -666, -666]);
    values.set(&[1, 2, 3]).unwrap();
    mean.set(4.0);
    assert_eq!((mean.get(), values.to_vec(), values.len()), (4.0, vec![1, 2, 3], 3));
    assert_eq!(format!("{mean:?} {values:?}"), "4.0 [1, 2, 3]");
}

/// Floats: what a block reads is what it started from and the sum of its own additions; references to several numbers live side
/// by side, and a sum that is no number is read as one.
#[test]
fn floats_are_read_with_the_sum_of_the_blocks_own_additions() {
    let session = Session::builder().threads(2).build().unwrap();
    let start = [0.1f64, -0.0, f64::INFINITY, 7.5];
    let totals = session.relaxed_vector(start.to_vec());
    let mut saw = DVector::from_fn(&session, 100, |_| [0u64; 4]).unwrap();
    async_parallel_for!(
        0..100,
        [&mut saw, &totals],
        |i| {
            let (first, last) = (&totals[0usize], &totals[3usize]);
            let again = &totals[0usize];
            assert_eq!((first.to_bits(), *last), (again.to_bits(), 7.5));
            let all: [f64; 4] = totals.as_slice().try_into().unwrap();
            assert_eq!(all[0].to_bits(), totals[0usize].to_bits());
            saw[i] = all.map(f64::to_bits);
            totals.add(0usize, 0.1 * i as f64);
            totals.add(1usize, -0.0);
            totals.add(2usize, if i == 50 { f64::NEG_INFINITY } else { 1.0 });
        },
        strategy = Serial
    )
    .unwrap();
    let mut added = 0.0f64;
    for (i, saw) in saw.iter().unwrap().enumerate() {
        let saw = saw.map(f64::from_bits);
        assert_eq!((saw[0].to_bits(), saw[3]), ((start[0] + added).to_bits(), 7.5), "iteration {i}");
        assert!(saw[1] == 0.0 && saw[2].is_nan() == (i > 50), "iteration {i}: {saw:?}");
        added += 0.1 * i as f64;
    }
    let ends = totals.to_vec();
    assert_eq!((ends[0].to_bits(), ends[1], ends[3]), ((start[0] + added).to_bits(), 0.0, 7.5));
    assert!(ends[2].is_nan());
}

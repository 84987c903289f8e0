//! A job of some seconds whose loops run minibatches, under a policy of the environment's choice.

use std::time::Duration;

use stradsap::prelude::*;

use crate::common::{below, mix};

/// Makes this executable that job: its policy.
pub const POLICY: &str = "STRADSAP_TEST_POLICY";

/// The policies by name. A name with `combined` in it has that rule.
pub const POLICIES: [(&str, SyncPolicy); 5] = [
    ("bsp", SyncPolicy::Bsp),
    ("bsp, combined", SyncPolicy::Bsp),
    ("model-average", SyncPolicy::ModelAverage { every: 2 }),
    ("ssp", SyncPolicy::Ssp { staleness: 2 }),
    ("hybrid", SyncPolicy::Hybrid),
];

/// Whether a job leaves the same bits each time that it has as many copies, or counts alone.
pub fn leaves_bits(policy: &str) -> bool {
    policy != "ssp"
}

const ROWS: usize = 500;
const LISTS: usize = 360;

/// Lists of rows, most of them here and there.
fn list(i: usize, seed: u64) -> Vec<u32> {
    let at = |k: u64| if below(k, 4) == 0 { below(k + 1, 10) } else { below(k ^ mix(seed), ROWS) };
    (0..2 + i as u64 % 5).map(|k| at(i as u64 * 10 + k) as u32).collect()
}

fn look_at(i: usize, row: &[f32]) -> u64 {
    row.iter().fold(i as u64, |hash, x| mix(hash ^ u64::from(x.to_bits())))
}

/// How many lists begin in the same way, and where those of an epoch stand.
type Lists = (DMap<(usize, u32), u64>, DMultiMap<u32, usize>);

/// Counts lists by what they begin with, and keeps where they stand: in each epoch there are keys that no copy has seen.
fn count_lists(
    (input, epoch): (&DVector<Vec<u32>>, usize),
    (counts, places): &mut Lists,
    how: SyncPolicy,
) -> stradsap::Result<()> {
    sync_parallel_for!(
        input,
        12,
        [epoch, counts = &mut *counts, places = &mut *places],
        |batch| {
            std::thread::sleep(Duration::from_micros(400));
            for (k, list) in batch.iter().enumerate() {
                counts.entry((epoch / 2, list[0] % 40)).or_insert(0).add(1);
                places.insert(list[1] % 10 + 10 * epoch as u32, batch.start() + k);
            }
        },
        how
    )?;
    // Whatever happened meanwhile: each list is there, once, in its place. (An average divides the counts.)
    if !matches!(how, SyncPolicy::ModelAverage { .. }) {
        assert_eq!(counts.iter()?.map(|(_, n)| n).sum::<u64>(), ((epoch + 1) * LISTS) as u64, "epoch {epoch}");
    }
    let own: Vec<_> = places.iter()?.filter(|(key, _)| *key as usize / 10 == epoch).map(|(_, list)| list).collect();
    assert!(own.iter().all(|list| list.is_sorted()), "epoch {epoch}");
    let mut all = own.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..LISTS), "epoch {epoch}");
    Ok(())
}

/// Trains rows, counts what it does, and has loops of the other kind on the same rows now and then.
#[allow(clippy::print_stdout)]
pub fn run(session: &Session, policy: &str, epochs: usize) -> stradsap::Result<()> {
    let (_, how) = POLICIES.into_iter().find(|(name, _)| *name == policy).unwrap();
    let (rule, interval) = if policy.contains("combined") { (MergeRule::Combine, 2) } else { (MergeRule::Sum, 1) };
    let mut input = DVector::from_fn(session, LISTS, |i| list(i, 0))?;
    let all = DVector::from_fn(session, ROWS, |i| i as u32)?;
    let mut rows = DMatrix::from_fn(session, ROWS, 8, |i, _| i as f32 / 100.0)?;
    let mut counts = DVector::from_fn(session, ROWS, |_| 0u64)?;
    let mut lists: Lists = (DMap::new(session)?, DMultiMap::new(session)?);
    println!("begins at 0");
    for epoch in 0..epochs {
        let (rate, done) = (0.1f32 / (1.0 + epoch as f32), session.count());
        let before: u64 = counts.iter()?.sum();
        sync_parallel_for!(
            input,
            6,
            [rate, &mut rows, &mut counts, &done],
            |batch| {
                // As long as something worth doing would take.
                std::thread::sleep(Duration::from_micros(400));
                for list in batch {
                    let mut mean = [0.0; 8];
                    list.iter().for_each(|&i| rows[i].add_to(1.0 / list.len() as f32, &mut mean));
                    for &i in list {
                        rows[i].axpy(rate, &mean);
                        rows[i].scale(0.97);
                        counts[ROWS - 1 - i as usize].add(1);
                    }
                    done.add(list.len() as u64);
                }
            },
            how,
            merge = rule,
            interval = interval
        )?;
        // Whatever happened meanwhile: each update is there, once. (An average divides them.)
        if policy != "model-average" {
            assert_eq!(counts.iter()?.sum::<u64>(), before + done.get(), "epoch {epoch}");
        }
        count_lists((&input, epoch), &mut lists, how)?;
        if epoch % 4 == 2 {
            async_parallel_for!(0..ROWS * 2, [&mut rows, &mut counts], |i| {
                let at = i * 7 % ROWS;
                rows[at][i % 8] *= 0.5;
                counts[at] += 1;
            })?;
        }
        // Most rows are foreseen.
        if epoch % 3 == 1 {
            input.set(epoch * 5, list(epoch * 5, epoch as u64))?;
        }
        let seen = rows.iter()?.enumerate().fold(0u64, |sum, (i, row)| sum.wrapping_add(look_at(i, &row)));
        println!("epoch {epoch} {}", done.get());
        std::thread::sleep(Duration::from_millis(12));
        // What the program has seen stays so, although a worker is lost meanwhile: the workers have the same rows still.
        let looked = session.sum(0u64);
        sync_parallel_for!(
            all,
            50,
            [&rows, &looked],
            |batch| {
                batch.into_iter().for_each(|&i| looked.add(look_at(i as usize, &rows[i as usize])));
            },
            SyncPolicy::Bsp
        )?;
        assert_eq!(looked.get(), seen, "epoch {epoch}");
    }
    let rows = if leaves_bits(policy) { rows.digest()? } else { "-".to_string() };
    println!("digest {rows} {} {} {}", counts.digest()?, lists.0.digest()?, lists.1.digest()?);
    Ok(())
}

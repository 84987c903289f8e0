//! What bodies get besides rows: reductions, values, and DVectors that they only read.

use stradsap::prelude::*;

use super::places::{note, policies};
use crate::common::{below, mix};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// Numbers of very different sizes: any other order of additions shows.
fn number(i: usize) -> f64 {
    let scale = [1e-9, 1.0, 1e9, 1e16][i % 4];
    (mix(i as u64) % 10_000) as f64 * scale / 7.0 * if i.is_multiple_of(3) { -1.0 } else { 1.0 }
}

pub(crate) fn reductions(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 500, number)?;
    let mut x = DVector::from_fn(session, 10, |_| 0.0f64)?;
    for (name, policy) in policies(session) {
        let (sum, sum32) = (session.sum(1.0f64), session.sum(1.0f32));
        let (ints, big) = (session.sum(i32::MAX - 5), session.sum(u64::MAX));
        let (low, high) = (session.min(1e30f64), session.max(f32::NEG_INFINITY));
        let (lowest, count) = (session.min(i64::MAX), session.count());
        for minibatch in [10usize, 10, 33, 4] {
            let report = sync_parallel_for!(
                input,
                minibatch,
                [&mut x, &sum, &sum32, &ints, &big, &low, &high, &lowest, &count],
                |batch| {
                    for (k, &number) in batch.into_iter().enumerate() {
                        let i = batch.start() + k;
                        x[i % 10].add(number);
                        sum.add(number);
                        sum32.add(number as f32);
                        ints.add((i as i32).wrapping_mul(1_000_003));
                        big.add(i as u64);
                        low.min(number);
                        high.max(number as f32);
                        lowest.min(i as i64 - 70);
                        count.add(2);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            seen.record("floats", (sum.get().to_bits(), sum32.get().to_bits()));
            seen.record("whole", (ints.get(), big.get(), lowest.get(), count.get()));
            seen.record("ends", (low.get().to_bits(), high.get().to_bits()));
            // What the program sets between loops is what the next one starts from.
            sum.set(sum.get() / 3.0);
        }
        assert_eq!((count.get(), lowest.get()), (4000, -70));
        // A loop may have nothing but reductions.
        let report = sync_parallel_for!(
            input,
            9,
            [&sum, &count],
            |batch| {
                sum.add(batch[0]);
                count.add(1);
            },
            policy
        )?;
        note(seen, name, &report);
        seen.record("alone", (sum.get().to_bits(), count.get()));
    }
    seen.digest("x", &x)
}

/// Values of all kinds, and DVectors that are only read, others or changed ones in each call.
pub(crate) fn values_and_readers(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 200, |i| i as u32)?;
    for (name, policy) in policies(session) {
        let mut weights = DVector::from_fn(session, 64, |i| i as f32 / 3.0)?;
        let mut names = DVector::from_fn(session, 12, |i| format!("name {i}"))?;
        let mut x = DVector::from_fn(session, 50, |i| i as f32)?;
        for epoch in 0..4usize {
            let (rate, text) = (0.5f32 / (1 + epoch) as f32, "ü".repeat(epoch));
            let table: Vec<f64> = (0..epoch * 10).map(|k| k as f64 / 7.0).collect();
            let pair = (epoch as u8, [epoch; 3]);
            let report = sync_parallel_for!(
                input,
                8,
                [rate, text, table, pair, &weights, &names, &mut x],
                |batch| {
                    for &i in batch {
                        let at = below(u64::from(i) + pair.1[1] as u64, 50);
                        let more = table.get(i as usize).copied().unwrap_or(0.125) as f32 + text.len() as f32;
                        let name = names[i as usize % names.len()].len() as f32 + f32::from(pair.0);
                        x[at].add(rate * (weights[i as usize % 64] - x[at].get()) + more * 0.1 + name);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            weights.set(epoch * 7, -2.0)?;
            names.set(epoch, "x".repeat(epoch))?;
            // Read here, written there.
            async_parallel_for!(0..64, [&mut weights], |i| weights[i] *= 0.5)?;
            seen.digest("x", &x)?;
        }
    }
    Ok(())
}

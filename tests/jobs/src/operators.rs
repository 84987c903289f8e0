//! A job of some seconds that is mostly operators, on each other's results and on what loops wrote.

use std::time::Duration;

use stradsap::prelude::*;

use crate::common::{below, mix};

/// Makes this executable that job.
pub const OPERATORS: &str = "STRADSAP_TEST_OPERATORS";

/// An epoch's steps, after each of which a line says so.
pub const STEPS: usize = 8;

const ITEMS: usize = 9_000;

/// Takes its time, as something worth doing would.
fn busy(i: u32) {
    if i.is_multiple_of(64) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Collects, writes by a loop, filters, sorts, groups, joins and counts, again and again.
#[allow(clippy::print_stdout)]
pub fn run(session: &Session, epochs: usize) -> stradsap::Result<()> {
    let mut items = DVector::from_fn(session, ITEMS, |i| (below(i as u64, 900) as u32, i as f64 / 7.0))?;
    let names = DVector::from_fn(session, 900, |i| format!("name {}", i % 83))?;
    let mut counts = DMap::<String, u64>::new(session)?;
    println!("begins at 0");
    for epoch in 0..epochs {
        let step = |k: usize| {
            println!("step {epoch}.{k}");
            // What is faster than this is not faster than what is done to it.
            std::thread::sleep(Duration::from_millis(6));
        };
        let mut collected = with!(
            [epoch, &names],
            items.map(|(key, value)| {
                busy(*key);
                (*key, value * 0.5 + names[*key as usize].len() as f64 + epoch as f64)
            })
        )
        .collect()?;
        step(0);
        async_parallel_for!(0..collected.len(), [&mut collected], |i| {
            let other = (i * 31 + 7) % 2000;
            let value = collected[other].1 * 0.25;
            collected[i].1 += value;
        })?;
        step(1);
        let texts = collected.filter(|(key, value)| {
            busy(*key);
            value.to_bits() % 5 != 0
        });
        let texts =
            with!([&names], texts.map(|(key, value)| (names[*key as usize].clone(), *key, *value))).collect()?;
        step(2);
        let sorted = texts.sort_by_key(|(name, key, _)| {
            busy(*key);
            (name.len(), *key % 100)
        })?;
        step(3);
        let grouped = sorted
            .map(|(name, key, value)| {
                busy(*key);
                (name.clone(), (*key, value.to_bits()))
            })
            .group_by_key()?;
        step(4);
        async_parallel_for!(0..sorted.len(), [epoch, &sorted, &mut counts], |i| {
            let (name, key, _) = &sorted[i];
            let count = counts.entry(format!("{name}{}", key % 7)).or_insert(epoch as u64);
            *count = count.wrapping_mul(3) + i as u64;
        })?;
        step(5);
        let joined = sorted.join(&grouped, |(name, ..)| name.clone()).filter(|((_, key, _), (other, _))| key == other);
        let sums = joined.map(|((_, key, value), _)| (*key, *value)).reduce_by_key(|a, b| a + b)?;
        step(6);
        // The next epoch's items are made of this one's.
        items = with!(
            [&sums, &counts, &names],
            items.map(|(key, value)| {
                let counted = counts.get(&format!("{}{}", names[*key as usize], key % 7)).copied().unwrap_or(1);
                let sum = sums.get(key).copied().unwrap_or(*value);
                ((*key + (counted % 3) as u32) % 900, (sum + value) % 1000.0)
            })
        )
        .collect()?;
        counts.transform(|_, count| *count %= 1_000_003)?;
        let total = collected.fold(0.0f64, |sum, (_, value)| sum + value, |a, b| a + b)?;
        println!("step {epoch}.7");
        println!("epoch {epoch} {:016x}", mix(total.to_bits()));
        if epoch % 2 == 1 {
            println!("between {} {}", grouped.digest()?, sorted.digest()?);
        }
    }
    println!("digest {} {}", items.digest()?, counts.digest()?);
    Ok(())
}

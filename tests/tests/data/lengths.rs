//! Every operator on data of every length that matters: none, one, about a chunk, several partitions, and many.

use std::collections::BTreeMap;

use stradsap::prelude::*;

use super::pool::{assert_near, assert_same, made_lists, made_map, word};
use crate::common::below;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

fn on(session: &Session, seen: &mut Seen, n: usize, written: bool) -> Result {
    let mut plain: Vec<u32> = (0..n).map(|i| below(i as u64, 1000) as u32).collect();
    let mut x = DVector::from_vec(session, plain.clone())?;
    if written {
        // The elements are where a loop left them.
        async_parallel_for!(0..n, [&mut x], |i| x[i] = x[i].wrapping_mul(7) % 1009)?;
        plain.iter_mut().for_each(|n| *n = n.wrapping_mul(7) % 1009);
    }
    let (table, by) = (DVector::from_fn(session, 1009, |i| i as f64 / 7.0)?, 3u32);
    seen.record("length", n);
    assert_same(&x.map(|n| n + 1).to_vec()?, &plain.iter().map(|n| n + 1).collect::<Vec<_>>());
    let odd = x.filter(|n| n % 2 == 1).collect()?;
    let its: Vec<u32> = plain.iter().copied().filter(|n| n % 2 == 1).collect();
    assert_same(&odd.to_vec()?, &its);
    assert_eq!(odd.pipe().count()?, its.len());
    let words = x.flat_map(|n| vec![word(u64::from(*n)); *n as usize % 3]).collect()?;
    let texts: Vec<String> = plain.iter().flat_map(|n| vec![word(u64::from(*n)); *n as usize % 3]).collect();
    assert_same(&words.to_vec()?, &texts);
    let weights = with!([by, &table], x.map(|n| table[*n as usize] * f64::from(by))).collect()?;
    let weighed: Vec<f64> = plain.iter().map(|n| f64::from(*n) / 7.0 * 3.0).collect();
    assert_same(&weights.to_vec()?, &weighed);
    let paired = x.zip(&weights).enumerate().map(|(i, (n, f))| (*i, *n, *f)).to_vec()?;
    assert_same(&paired, &(0..n).map(|i| (i, plain[i], weighed[i])).collect::<Vec<_>>());
    let (sum, reduced) = (weights.fold(0.0, |sum, f| sum + f, |a, b| a + b)?, weights.reduce(|a, b| a + b)?);
    assert_near(sum, weighed.iter().sum(), weighed.iter().sum());
    assert_near(reduced.unwrap_or(0.0), sum, sum);
    assert_eq!(reduced.is_some(), n > 0);
    seen.record("sums", (sum.to_bits(), reduced.map(f64::to_bits)));
    let mut sorted: Vec<(usize, u32)> = plain.iter().copied().enumerate().collect();
    sorted.sort_by_key(|(_, n)| n % 100);
    let pairs = x.enumerate().sort_by_key(|(_, n)| n % 100)?;
    assert_same(&pairs.to_vec()?, &sorted);
    let (first, second) = pairs.split(0.25, n as u64)?;
    assert_eq!(first.len() + second.len(), n);
    seen.record("split", (first.digest()?, second.digest()?));
    let counts = words.count_by_key(|word| word.clone())?;
    let mut counted = BTreeMap::new();
    texts.iter().for_each(|word| *counted.entry(word.clone()).or_default() += 1u64);
    made_map(session, &counts, &counted, seen)?;
    let lists = pairs.map(|(i, n)| (n % 50, *i)).group_by_key()?;
    let mut listed = BTreeMap::<u32, Vec<usize>>::new();
    sorted.iter().for_each(|(i, n)| listed.entry(n % 50).or_default().push(*i));
    made_lists(&lists, &listed, seen)?;
    let joined = words.join(&counts, |word| word.clone()).map(|(_, count)| *count).to_vec()?;
    assert_same(&joined, &texts.iter().map(|word| counted[word]).collect::<Vec<_>>());
    let sums = x.map(|n| (n % 10, u64::from(*n))).reduce_by_key(|a, b| a + b)?;
    let mut summed = BTreeMap::new();
    plain.iter().for_each(|n| *summed.entry(n % 10).or_default() += u64::from(*n));
    made_map(session, &sums, &summed, seen)?;
    let last = x.enumerate().map(|(i, n)| (*n, *i)).collect_map()?;
    made_map(session, &last, &plain.iter().enumerate().map(|(i, n)| (*n, i)).collect(), seen)?;
    x.transform(|n| *n ^= 1)?;
    assert_same(&x.to_vec()?, &plain.iter().map(|n| n ^ 1).collect::<Vec<_>>());
    Ok(())
}

pub(crate) fn lengths(session: &Session, seen: &mut Seen) -> Result {
    for n in [0, 1, 2, 31, 32, 33, 64, 4095, 4096, 9000] {
        on(session, seen, n, false)?;
        on(session, seen, n, true)?;
    }
    Ok(())
}

/// This many that chunks hold more than the fewest, and there are many partitions.
pub(crate) fn many(session: &Session, seen: &mut Seen) -> Result {
    on(session, seen, 300_000, true)
}

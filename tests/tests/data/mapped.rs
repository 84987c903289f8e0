//! Parameters in maps, as models with names have them.

use std::collections::BTreeMap;

use stradsap::prelude::*;

use super::pool::{entries, word};
use crate::common::{Rating, below, bits32, ratings};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

const USERS: usize = 120;
const ITEMS: usize = 90;

fn start(i: usize) -> [f32; 4] {
    std::array::from_fn(|k| below((i * 4 + k) as u64, 1000) as f32 / 1500.0)
}

fn step(alpha: f32, r: &Rating, pu: &mut [f32; 4], qi: &mut [f32; 4]) -> f64 {
    let e = r.stars - kernels::dot(pu, qi);
    for k in 0..4 {
        let (a, b) = (pu[k], qi[k]);
        pu[k] += alpha * (e * b - 0.02 * a);
        qi[k] += alpha * (e * a - 0.02 * b);
    }
    f64::from(e * e)
}

/// Rows by number that are not 0, 1, 2, ...
fn id(user: u32) -> u32 {
    user * 7 + 3
}

/// Matrix factorisation with rows in maps, with names of items, beside the same with rows in DVectors.
pub(crate) fn factorisation(session: &Session, seen: &mut Seen) -> Result {
    let plain = ratings(8_000, USERS, ITEMS);
    let data = DVector::from_vec(session, plain.clone())?;
    let names = DVector::from_fn(session, ITEMS, |i| format!("item {i}"))?;
    let mut p = DMap::from_entries(session, (0..USERS as u32).map(|u| (id(u), start(u as usize))))?;
    let mut q = DMap::from_entries(session, (0..ITEMS).map(|i| (format!("item {i}"), start(i + 1000))))?;
    let mut p_rows = DVector::from_fn(session, USERS, start)?;
    let mut q_rows = DVector::from_fn(session, ITEMS, |i| start(i + 1000))?;
    let rows = || ((0..USERS).map(start).collect::<Vec<_>>(), (0..ITEMS).map(|i| start(i + 1000)).collect::<Vec<_>>());
    let replay = |order: &mut dyn Iterator<Item = usize>, (pu, qi): &mut (Vec<[f32; 4]>, Vec<[f32; 4]>), alpha: f32| {
        for n in order {
            step(alpha, &plain[n], &mut pu[plain[n].user as usize], &mut qi[plain[n].item as usize]);
        }
    };
    let (mut by_map, mut by_vector) = (rows(), rows());
    for epoch in 0..3 {
        let alpha = 0.05 / (1.0 + epoch as f32);
        let (loss, other) = (session.sum(0.0f64), session.sum(0.0f64));
        let report = async_parallel_for!(0..data.len(), [alpha, &data, &names, &mut p, &mut q, &loss], |n| {
            let r = data[n];
            let name = &names[r.item];
            if let (Some(pu), Some(qi)) = (p.get_mut(&id(r.user)), q.get_mut(name)) {
                loss.add(step(alpha, &r, pu, qi));
            }
        })?;
        seen.report("maps", &report);
        seen.record("loss", loss.get().to_bits());
        replay(&mut report.serial_order(), &mut by_map, alpha);
        let report = async_parallel_for!(0..data.len(), [alpha, &data, &mut p_rows, &mut q_rows, &other], |n| {
            let r = data[n];
            let (pu, qi) = (&mut p_rows[r.user], &mut q_rows[r.item]);
            other.add(step(alpha, &r, pu, qi));
        })?;
        seen.report("vectors", &report);
        replay(&mut report.serial_order(), &mut by_vector, alpha);
        // Two orders of the same steps: not the same bits, but the same model.
        assert!((loss.get() - other.get()).abs() < 0.05 * other.get(), "{} and {}", loss.get(), other.get());
    }
    let (found_p, found_q) = (entries(session, &p)?, entries(session, &q)?);
    for (user, row) in by_map.0.iter().enumerate() {
        assert_eq!(bits32(found_p[&id(user as u32)]), bits32(*row), "user {user}");
    }
    for (item, row) in by_map.1.iter().enumerate() {
        assert_eq!(bits32(found_q[&format!("item {item}")]), bits32(*row), "item {item}");
    }
    assert_eq!(bits32(p_rows.to_vec()?.concat()), bits32(by_vector.0.concat()));
    assert_eq!(bits32(q_rows.to_vec()?.concat()), bits32(by_vector.1.concat()));
    seen.record("rows", (p.digest()?, q.digest()?, p_rows.digest()?));
    // The error of the model, by an operator that looks at both maps.
    let pairs = with!(
        [&p, &q, &names],
        data.map(|r| f64::from(r.stars - kernels::dot(&p[&id(r.user)], &q[&names[r.item as usize]])))
    );
    let error = pairs.fold(0.0, |sum, e| sum + e * e, |a, b| a + b)?;
    let expected: f64 = plain
        .iter()
        .map(|r| f64::from(r.stars - kernels::dot(&by_map.0[r.user as usize], &by_map.1[r.item as usize])).powi(2))
        .sum();
    assert!((error - expected).abs() < 1e-6 * expected);
    seen.record("error", error.to_bits());
    Ok(())
}

/// Maps that minibatches read.
pub(crate) fn in_minibatches(session: &Session, seen: &mut Seen) -> Result {
    let texts: Vec<String> = (0..2000u64).map(|i| word(i * i % 7919)).collect();
    let data = DVector::from_vec(session, texts.clone())?;
    let known: BTreeMap<String, u32> =
        texts.iter().enumerate().map(|(i, text)| (text.clone(), i as u32 % 64)).collect();
    let numbers = data.enumerate().map(|(i, text)| (text.clone(), *i as u32 % 64)).collect_map()?;
    let near = DMultiMap::from_pairs(session, (0..64u32).flat_map(|k| (0..k % 4).map(move |n| (k, (k + n * 5) % 64))))?;
    let mut counts = DVector::from_fn(session, 64, |_| 0u64)?;
    let mut rows = DVector::from_fn(session, 64, |i| [i as f32; 4])?;
    let one_each = session.workers() == 0 || session.threads() == 1;
    let hybrid = if session.workers() == 0 || !one_each { SyncPolicy::Bsp } else { SyncPolicy::Hybrid };
    let mut expected = vec![0u64; 64];
    let lists: BTreeMap<u32, Vec<u32>> = near.to_vec()?.into_iter().collect();
    for text in &texts {
        let number = known[text];
        expected[number as usize] += 1;
        lists.get(&number).into_iter().flatten().for_each(|other| expected[*other as usize] += 2);
    }
    for (round, policy) in [SyncPolicy::Bsp, hybrid, SyncPolicy::Bsp].into_iter().enumerate() {
        let done = session.sum(0u64);
        sync_parallel_for!(
            data,
            40,
            [&numbers, &near, &mut counts, &done],
            |batch| {
                for text in batch {
                    let number = numbers[text];
                    counts[number].add(1);
                    near[&number].iter().for_each(|other| counts[*other].add(2));
                    done.add(u64::from(numbers.contains_key(text.as_str())));
                }
            },
            policy
        )?;
        // Whole numbers are the same however many copies there were.
        let times = round as u64 + 1;
        assert_eq!(counts.to_vec()?, expected.iter().map(|n| n * times).collect::<Vec<_>>());
        assert_eq!(done.get(), 2000);
        seen.digest("counts", &counts)?;
    }
    // An average has the same bits each time that there are as many copies.
    let mut digests = Vec::new();
    for _ in 0..2 {
        rows.transform(|row| *row = [1.0; 4])?;
        sync_parallel_for!(
            data,
            25,
            [&numbers, &mut rows],
            |batch| {
                for text in batch {
                    let mut row = [0.0; 4];
                    rows[numbers[text]].add_to(0.01, &mut row);
                    rows[(numbers[text] + 1) % 64].axpy(0.5, &row);
                }
            },
            SyncPolicy::ModelAverage { every: 2 }
        )?;
        digests.push(rows.digest()?);
    }
    assert_eq!(digests[0], digests[1]);
    Ok(())
}

//! State that changes behind a shared reference, captured as a value or in an element.
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};

use stradsap::prelude::*;

#[derive(Element, serde::Serialize, serde::Deserialize)]
#[element(serde)]
struct Row {
    weight: f64,
    seen: (u32, Option<AtomicU64>),
    notes: Vec<String>,
}

impl Clone for Row {
    fn clone(&self) -> Self {
        Row { weight: self.weight, seen: (self.seen.0, None), notes: self.notes.clone() }
    }
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_fn(session, 1000, |i| i as u64)?;
    let hits = AtomicU64::new(0);
    async_parallel_for!(0..1000, [hits, &mut x], |i| {
        x[i] += 1;
        hits.fetch_add(1, SeqCst);
    })?;

    let total = Mutex::new(0.0f64);
    let mut y = DVector::from_fn(session, 1000, |i| i as u64)?;
    sync_parallel_for!(x, 10, [total, &mut y], |batch| {
        for n in batch {
            *total.lock().unwrap() += *n as f64;
            y[*n].add(1);
        }
    }, SyncPolicy::Bsp)?;

    let (largest, counts) = (Some((1.0, RwLock::new(0u64))), vec![AtomicU64::new(0), AtomicU64::new(0)]);
    let odd = with!([largest, counts], x.filter(|n| {
        counts[0].fetch_add(1, SeqCst);
        largest.is_some() && *n % 2 == 1
    })).count()?;
    println!("{odd}");

    let calls = Cell::new(0u32);
    async_parallel_for!(0..1000, [calls, &mut x], |i| {
        x[i] += 1;
        calls.set(calls.get() + 1);
    })?;
    Ok(())
}

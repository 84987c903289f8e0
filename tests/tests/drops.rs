//! Destructors of elements that panic, and keys that lie: a loop has happened, or it has not.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::common::{below, mix, session};
use stradsap::prelude::*;
use stradsap::{Error, Result};

/// How many elements may still be dropped before one of them panics.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

#[derive(Clone, Debug, PartialEq, Element)]
struct Fragile(u64, String);

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(LEFT.fetch_sub(1, Relaxed) != 1 || std::thread::panicking(), "dropped {}", self.0);
    }
}

const CELLS: usize = 60;

/// What the iterations of a loop do in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Well,
    Error,
    Stray,
}

fn run(
    x: &mut DVector<Fragile>,
    count: &stradsap::Count,
    ending: Ending,
    strategy: Strategy,
) -> stradsap::Result<LoopReport> {
    let (fails, strays) = (ending == Ending::Error, ending == Ending::Stray);
    async_parallel_for!(
        0..400,
        [fails, strays, &mut x, &count],
        |i| {
            let at = below(i as u64, CELLS / 2);
            x[at].1.push('a');
            x[at].0 = mix(x[at].0 ^ i as u64);
            x[at + CELLS / 2] = Fragile(i as u64, i.to_string());
            count.add(1);
            if strays && i == 300 {
                let other = x[at].0 % CELLS as u64;
                x[other].0 += 1;
            }
            if fails && i == 350 { Err("bad luck") } else { Ok(()) }
        },
        strategy = strategy,
        order = Preserve,
        parts = 4
    )
}

/// Whichever element panics as it is dropped: the loop has happened, or has not.
fn faults(session: &Session) -> Result<()> {
    let mut panicked = 0;
    for (ending, strategy) in [
        (Ending::Well, Strategy::Grid),
        (Ending::Error, Strategy::Grid),
        (Ending::Error, Strategy::Serial),
        (Ending::Stray, Strategy::Grid),
        (Ending::Stray, Strategy::Coloured),
    ] {
        for left in (1..1300).step_by(if cfg!(miri) { 400 } else { 29 }) {
            let case = format!("{ending:?}, {strategy}, drop {left}");
            let mut x = DVector::from_fn(session, CELLS, |i| Fragile(i as u64, i.to_string()))?;
            let count = session.count();
            // Then there is a plan.
            run(&mut x, &session.count(), Ending::Well, strategy)?;
            let before = x.to_vec()?;
            LEFT.store(left, Relaxed);
            let result = catch_unwind(AssertUnwindSafe(|| run(&mut x, &count, ending, strategy)));
            LEFT.store(i64::MAX, Relaxed);
            let result = result.unwrap_or_else(|_| panic!("{case}: unwound"));
            let mut plain = before.clone();
            for i in 0..400 {
                let at = below(i as u64, CELLS / 2);
                plain[at].1.push('a');
                plain[at].0 = mix(plain[at].0 ^ i as u64);
                plain[at + CELLS / 2] = Fragile(i as u64, i.to_string());
                if ending == Ending::Stray && i == 300 {
                    let other = (plain[at].0 % CELLS as u64) as usize;
                    plain[other].0 += 1;
                }
            }
            match &result {
                Ok(_) => assert!(ending != Ending::Error, "{case}"),
                Err(Error::Panic { message, .. }) => {
                    assert!(message.starts_with("dropped "), "{case}: {message}");
                    panicked += 1;
                }
                Err(Error::Body { iteration: 350, .. }) if ending == Ending::Error => {}
                Err(other) => panic!("{case}: {other}"),
            }
            let (expected, counted) = if result.is_ok() { (&plain, 400) } else { (&before, 0) };
            assert_eq!((&x.to_vec()?, count.get()), (expected, counted), "{case}: {result:?}");
        }
    }
    assert!(panicked > 10, "{panicked} loops met the fault");
    Ok(())
}

static CALLS: AtomicI64 = AtomicI64::new(0);

/// A key that is another one each time somebody asks.
#[derive(Clone, Debug, Element)]
struct Liar(u32);

fn whim(n: i64) -> bool {
    mix(CALLS.fetch_add(1, Relaxed) as u64).is_multiple_of(n as u64)
}

impl PartialEq for Liar {
    fn eq(&self, other: &Liar) -> bool {
        self.0 == other.0 || whim(3)
    }
}

impl Eq for Liar {}

impl Hash for Liar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (u64::from(self.0) + u64::from(whim(5))).hash(state);
    }
}

/// Maps whose keys lie hold what they hold; nothing breaks, and what is said is said in words.
fn lies(session: &Session) -> Result<()> {
    for _ in 0..20 {
        let mut map = DMap::from_entries(session, (0..200).map(|i| (Liar(i % 90), i)))?;
        let said = async_parallel_for!(0..300, [&mut map], |i| {
            *map.entry(Liar(i as u32 % 50)).or_insert(1) += 1;
            map.remove(&Liar(i as u32 % 7));
        });
        if let Err(error) = said {
            assert!(!error.to_string().contains("unreachable"), "{error}");
        }
        for i in 0..200 {
            map.update(Liar(i), |entry| *entry.or_insert(5) += 1)?;
        }
        assert!(map.len()? > 0);
    }
    Ok(())
}

#[test]
fn an_undo_is_finished_whatever_destructors_do() {
    for threads in [1, 2, 4] {
        faults(&session(threads)).unwrap();
    }
}

#[test]
fn keys_that_lie_break_nothing() {
    for threads in [1, 3] {
        lies(&session(threads)).unwrap();
    }
}

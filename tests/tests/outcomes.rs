//! Which outcome a loop has: under `order = Preserve` the plain loop's, whatever iterations fail, and whatever they touch that
//! wasn't foreseen. The plain loop runs beside each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stradsap::Error;
use stradsap::prelude::*;

use crate::common::{below, mix};
use crate::seen::{Scenario, Seen, without_worker};

type Result = stradsap::Result<()>;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    failures::an_error_that_an_earlier_iteration_prevents,
    failures::the_first_error_of_the_loop,
    failures::random_programs,
    waits::for_what_was_not_foreseen,
    waits::that_end_by_themselves,
    guards::that_panic_when_they_are_dropped,
    guards::see_no_panic,
    depths::as_in_a_plain_loop,
];

/// What an iteration does.
const ADD: u32 = 0;
/// Changes the element whose number another one holds.
const STRAY: u32 = 1;
const ERROR: u32 = 2;
const PANIC: u32 = 3;
const BEYOND: u32 = 4;
/// Fails if the element is odd.
const ERROR_IF: u32 = 5;
const PANIC_IF: u32 = 6;
const KINDS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Step {
    kind: u32,
    at: u32,
    from: u32,
    by: u32,
}

/// The text of a loop's error, as it would be without workers.
fn text(session: &Session, error: &Error) -> String {
    let (iteration, said) = match error {
        Error::Body { iteration, source, .. } => (iteration, source.to_string()),
        Error::Panic { iteration, message, location, .. } => (iteration, format!("{message}, {location}")),
        Error::IndexOutOfRange { iteration, index, .. } => (iteration, format!("no element {index}")),
        other => panic!("{other}"),
    };
    // An element that isn't there is nobody's in particular.
    let named = !matches!(error, Error::IndexOutOfRange { .. });
    let said = if named { without_worker(session, &said) } else { said };
    // Places in the source differ between this loop and the plain one.
    format!("iteration {iteration}: {}", said.split(", tests/").next().unwrap_or_default())
}

mod failures {
    use super::*;

    /// An operation's account may be overdrawn but for a bonus, which goes to an account that the loop itself names.
    pub(crate) fn an_error_that_an_earlier_iteration_prevents(session: &Session, seen: &mut Seen) -> Result {
        let n = 20_000usize;
        let mut ops: Vec<(u32, i32)> = (0..n).map(|i| (300 + (i * 7919 % 699) as u32, 1)).collect();
        ops[0] = (0, 0);
        ops[n / 2 + 1] = (999, 0);
        ops[n - 1000] = (0, -7);
        let accounts = DVector::from_vec(session, ops.iter().map(|op| op.0).collect())?;
        let amounts = DVector::from_vec(session, ops.iter().map(|op| op.1).collect())?;
        let mut balance = DVector::from_fn(session, 1000, |_| 0i32)?;
        let mut plain = vec![0i32; 1000];
        for _ in 0..5 {
            async_parallel_for!(
                0..n,
                [&accounts, &amounts, &mut balance],
                |i| {
                    let (account, amount) = (accounts[i], amounts[i]);
                    if balance[account] + amount < 0 {
                        return Err(format!("account {account} has only {}", balance[account]));
                    }
                    balance[account] += amount;
                    if account == 999 {
                        let lucky = balance[account] as u32;
                        balance[lucky] += 100;
                    }
                    Ok(())
                },
                order = Preserve
            )?;
            for &(account, amount) in &ops {
                let account = account as usize;
                assert!(plain[account] + amount >= 0);
                plain[account] += amount;
                if account == 999 {
                    let lucky = plain[account] as usize;
                    plain[lucky] += 100;
                }
            }
            assert_eq!(balance.to_vec()?, plain);
        }
        seen.digest("balance", &balance)
    }

    /// Two iterations fail: the one that stands first in the loop is in a block that the plan has later.
    pub(crate) fn the_first_error_of_the_loop(session: &Session, seen: &mut Seen) -> Result {
        let n = 20_000usize;
        let at = |i: usize| if i == 0 || i == n - 1000 { 0u32 } else { (500 + below(i as u64, 500)) as u32 };
        let places = DVector::from_fn(session, n, at)?;
        let mut x = DVector::from_fn(session, 1000, |_| 0u64)?;
        for panics in [false, true, false] {
            let error = async_parallel_for!(
                0..n,
                [n, panics, &places, &mut x],
                |i| {
                    x[places[i]] += 1;
                    if i == n - 1000 || i == 20 {
                        assert!(!panics, "panic {i}");
                        return Err(format!("error {i}"));
                    }
                    Ok(())
                },
                order = Preserve
            )
            .unwrap_err();
            let said = text(session, &error);
            assert_eq!(said, format!("iteration 20: {} 20", if panics { "panic" } else { "error" }));
            assert!(x.to_vec()?.iter().all(|&sum| sum == 0));
            seen.record("error", said);
        }
        Ok(())
    }

    const CELLS: usize = 240;

    /// How a program of steps is made. Some touch what they say, and some fail.
    struct Program {
        steps: Vec<Step>,
        strategy: Option<Strategy>,
    }

    fn program(seed: u64) -> Program {
        let draw = |k: u64, n: usize| below(mix(seed) ^ (k << 20), n);
        let n = 1500 + draw(1, 1500);
        // Cells of few iterations, besides those of many: blocks of both stand in another order than the loop's.
        let rare = 1 + draw(2, 40);
        let mut steps: Vec<Step> = (0..n as u64)
            .map(|i| {
                let at = CELLS / 2 + draw(i + 100, CELLS / 2);
                Step { kind: ADD, at: at as u32, from: at as u32, by: mix(i ^ seed) as u32 }
            })
            .collect();
        for k in 0..rare as u64 {
            let (at, from) = (draw(k * 7 + 50_000, CELLS / 4), draw(k * 7 + 50_001, CELLS / 4));
            let step = &mut steps[draw(k * 7 + 50_002, n)];
            (step.at, step.from) = (at as u32, from as u32);
        }
        for k in 0..draw(3, 5) as u64 {
            steps[draw(k * 5 + 60_000, n)].kind = STRAY;
        }
        for k in 0..draw(4, 6) as u64 {
            let kind = ERROR + draw(k * 5 + 70_000, KINDS - ERROR as usize) as u32;
            // Those that fail for certain do so late.
            let first = if kind < ERROR_IF { n / 2 } else { 0 };
            steps[first + draw(k * 5 + 70_001, n - first)].kind = kind;
        }
        let strategy = [None, Some(Strategy::Grid), Some(Strategy::Coloured)][draw(5, 3)];
        Program { steps, strategy }
    }

    fn plainly(steps: &[Step], x: &mut [u64]) -> std::result::Result<(), String> {
        for (i, step) in steps.iter().enumerate() {
            let (at, from) = (step.at as usize, step.from as usize);
            let odd = x[from] % 2 == 1;
            let failed = |what: String| Err(format!("iteration {i}: {what}"));
            match step.kind {
                ERROR => return failed(format!("error on {}", x[from])),
                PANIC => return failed(format!("panic on {}", x[from])),
                BEYOND => return failed(format!("no element {}", CELLS + i)),
                ERROR_IF if odd => return failed(format!("odd: {}", x[from])),
                PANIC_IF if odd => return failed(format!("met odd {}", x[from])),
                STRAY => x[(x[from] % CELLS as u64) as usize] ^= u64::from(step.by) << 1 | 1,
                _ => {}
            }
            x[at] = mix(x[from] ^ u64::from(step.by));
        }
        Ok(())
    }

    fn run(
        steps: &DVector<Step>,
        x: &mut DVector<u64>,
        order: Order,
        strategy: Option<Strategy>,
    ) -> stradsap::Result<LoopReport> {
        macro_rules! with {
            ($($option:tt)*) => {
                async_parallel_for!(0..steps.len(), [&steps, &mut x], |i| {
                    let step = steps[i];
                    let odd = x[step.from] % 2 == 1;
                    match step.kind {
                        ERROR => return Err(format!("error on {}", x[step.from])),
                        PANIC => panic!("panic on {}", x[step.from]),
                        BEYOND => x[CELLS + i] += 1,
                        ERROR_IF if odd => return Err(format!("odd: {}", x[step.from])),
                        PANIC_IF if odd => panic!("met odd {}", x[step.from]),
                        STRAY => {
                            let stray = x[step.from] % CELLS as u64;
                            x[stray] ^= u64::from(step.by) << 1 | 1;
                        }
                        _ => {}
                    }
                    x[step.at] = mix(x[step.from] ^ u64::from(step.by));
                    Ok(())
                }, order = order, parts = 6 $($option)*)
            };
        }
        match strategy {
            None => with!(),
            Some(strategy) => with!(, strategy = strategy),
        }
    }

    /// Several loops one after the other on the same elements, some of which fail.
    fn check(session: &Session, seed: u64, seen: &mut Seen) -> Result {
        let Program { steps, strategy } = program(seed);
        let mut plain: Vec<u64> = (0..CELLS as u64).map(|i| mix(i ^ seed) & !1).collect();
        let mut data = DVector::from_vec(session, steps.clone())?;
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut steps = steps;
        for round in 0..4u64 {
            let case = format!("seed {seed}, round {round}, {strategy:?}");
            let mut expected = plain.clone();
            let outcome = plainly(&steps, &mut expected);
            let ended = run(&data, &mut x, Order::Preserve, strategy);
            match (&outcome, ended) {
                (Ok(()), Ok(_)) => plain = expected,
                (Err(expected), Err(error)) => assert_eq!(&text(session, &error), expected, "{case}"),
                (expected, ended) => panic!("{case}: {ended:?} instead of {expected:?}"),
            }
            assert_eq!(x.to_vec()?, plain, "{case}");
            // Other orders: wherever the loop runs it ends in the same way.
            let mut other = DVector::from_vec(session, plain.clone())?;
            let ended = run(&data, &mut other, Order::Any, strategy);
            seen.record("any", ended.map(|_| ()).map_err(|error| text(session, &error)));
            seen.digest("other", &other)?;
            // What failed is mended, and something else is broken.
            let failed = outcome.err().and_then(|text| text.split([' ', ':']).nth(1)?.parse::<usize>().ok());
            if let Some(i) = failed {
                steps[i].kind = ADD;
                data.set(i, steps[i])?;
            }
            let i = below(seed ^ round << 7, steps.len());
            steps[i].kind = below(seed ^ round << 9, KINDS) as u32;
            data.set(i, steps[i])?;
        }
        seen.digest("x", &x)
    }

    pub(crate) fn random_programs(session: &Session, seen: &mut Seen) -> Result {
        let one = std::env::var("STRADSAP_SEED").ok().and_then(|seed| seed.parse().ok());
        let many = match (std::env::var_os("STRADSAP_LONG").is_some(), session.workers()) {
            (true, 0) => 1000,
            (true, _) => 200,
            (false, 0) => 60,
            (false, _) => 12,
        };
        for seed in one.map_or(0..many, |seed: u64| seed..seed + 1) {
            let mut own = Seen::default();
            let ended = catch_unwind(AssertUnwindSafe(|| check(session, seed, &mut own)));
            ended.unwrap_or_else(|_| panic!("STRADSAP_SEED={seed} fails alone"))?;
            // As many everywhere.
            if seed < 12 || one.is_some() {
                seen.0.extend(own.0);
            }
        }
        Ok(())
    }
}

/// Bodies that go round until an element has a value, which in the plain loop it has from the start.
mod waits {
    use super::*;

    #[allow(clippy::while_immutable_condition, reason = "an iteration that waits is what is tried")]
    pub(crate) fn for_what_was_not_foreseen(session: &Session, seen: &mut Seen) -> Result {
        let n = 20_000usize;
        let at = |i: usize| if i == 0 || i == n - 1000 { 0u32 } else { (500 + below(i as u64, 500)) as u32 };
        let places = DVector::from_fn(session, n, at)?;
        let mut plain = vec![0u64; 1000];
        let mut x = DVector::from_fn(session, 1000, |_| 0u64)?;
        for _ in 0..3 {
            async_parallel_for!(
                0..n,
                [n, &places, &mut x],
                |i| {
                    let at = places[i];
                    if i == n - 1000 {
                        while x[at] < 50 {
                            std::hint::spin_loop();
                        }
                        loop {
                            if x[at] > 50 {
                                break;
                            }
                        }
                    }
                    x[at] += 1;
                    if i == n / 2 + 1 {
                        x[0usize] += 100;
                    }
                },
                order = Preserve
            )?;
            for i in 0..n {
                plain[at(i) as usize] += 1;
                plain[0] += if i == n / 2 + 1 { 100 } else { 0 };
            }
            assert_eq!(x.to_vec()?, plain);
        }
        seen.digest("x", &x)
    }

    /// More rounds than other blocks wait for.
    const LONG: u64 = if cfg!(debug_assertions) { 1 << 20 } else { 1 << 23 };

    /// Iterations that take long lose nothing.
    pub(crate) fn that_end_by_themselves(session: &Session, seen: &mut Seen) -> Result {
        let n = 400usize;
        let mut x = DVector::from_fn(session, 40, |_| 0u64)?;
        for order in [Order::Preserve, Order::Any] {
            let report = async_parallel_for!(
                0..n,
                [&mut x],
                |i| {
                    let (a, b) = (below(i as u64, 20), 20 + below(i as u64 + 7777, 20));
                    let rounds = if i == 207 { LONG } else { 3 };
                    let mut k = 0;
                    while k < rounds {
                        x[a] = mix(x[a] ^ x[b] ^ k);
                        k += 1;
                    }
                    x[b] ^= x[a];
                },
                order = order,
                strategy = Strategy::Grid
            )?;
            assert_eq!(report.misspeculations(), 0);
            seen.record("strategy", report.strategy());
        }
        seen.digest("x", &x)
    }
}

/// Bodies with guards whose destructors look around.
mod guards {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    struct Bomb(bool);

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(self.0, "dropped before it was done");
        }
    }

    pub(crate) fn that_panic_when_they_are_dropped(session: &Session, seen: &mut Seen) -> Result {
        let n = 20_000usize;
        for strategy in [None, Some(Strategy::Grid), Some(Strategy::Coloured)] {
            let mut plain: Vec<u32> = (0..n).map(|i| below(i as u64, n) as u32).collect();
            let mut to = DVector::from_vec(session, plain.clone())?;
            for _ in 0..2 {
                macro_rules! run {
                    ($($option:tt)*) => {
                        async_parallel_for!(0..n, [n, &mut to], |i| {
                            let mut bomb = Bomb(false);
                            let j = to[to[i]];
                            to[j] = to[i].wrapping_mul(7) % n as u32;
                            bomb.0 = true;
                        }, order = Preserve $($option)*)?
                    };
                }
                match strategy {
                    None => run!(),
                    Some(strategy) => run!(, strategy = strategy),
                };
                for i in 0..n {
                    let j = plain[plain[i] as usize] as usize;
                    plain[j] = plain[i].wrapping_mul(7) % n as u32;
                }
                assert_eq!(to.to_vec()?, plain);
            }
            seen.digest("to", &to)?;
        }
        Ok(())
    }

    static PANICKING: AtomicUsize = AtomicUsize::new(0);

    struct Looks;

    impl Drop for Looks {
        fn drop(&mut self) {
            PANICKING.fetch_add(usize::from(std::thread::panicking()), Relaxed);
        }
    }

    /// An iteration that strays isn't seen to panic.
    pub(crate) fn see_no_panic(session: &Session, seen: &mut Seen) -> Result {
        let n = 5_000usize;
        let mut names = DVector::from_fn(session, 300, |i| vec![format!("{}", i % 97)])?;
        let before = PANICKING.load(Relaxed);
        let mut plain = names.to_vec()?;
        async_parallel_for!(
            0..n,
            [&mut names],
            |i| {
                let _looks = Looks;
                let (a, b) = (below(i as u64, 150), 150 + below(i as u64 + 9999, 150));
                names[a][0] = ((mix(i as u64) ^ names[b][0].len() as u64) % 300).to_string();
                if i % 1000 == 999 {
                    let other: usize = names[a][0].parse().unwrap_or_default();
                    names[other].push(i.to_string());
                }
            },
            order = Preserve,
            parts = 6
        )?;
        for i in 0..n {
            let (a, b) = (below(i as u64, 150), 150 + below(i as u64 + 9999, 150));
            plain[a][0] = ((mix(i as u64) ^ plain[b][0].len() as u64) % 300).to_string();
            if i % 1000 == 999 {
                let other: usize = plain[a][0].parse().unwrap_or_default();
                plain[other].push(i.to_string());
            }
        }
        assert_eq!(names.to_vec()?, plain);
        assert_eq!(PANICKING.load(Relaxed), before);
        seen.digest("names", &names)
    }
}

/// How deep bodies go.
pub(crate) mod depths {
    use super::*;

    /// Takes half a KiB of stack for each step down.
    #[inline(never)]
    fn down(n: usize) -> u64 {
        let room = std::hint::black_box([n as u8; 512]);
        if n == 0 { 0 } else { down(n - 1) + u64::from(room[n % 512]) }
    }

    /// Deeper than the stack of a thread that nothing is said of, which has 2 MiB.
    const DEPTH: usize = 4000;

    fn loops(session: &Session, seen: &mut Seen) -> Result {
        let n = 400;
        let mut x = DVector::from_fn(session, n, |i| i as u64)?;
        async_parallel_for!(0..n, [&mut x], |i| x[i] += down(DEPTH))?;
        async_parallel_for!(0..n, [&mut x], |i| x[i / 3] ^= down(DEPTH + i % 2), order = Order::Preserve)?;
        seen.digest("loops", &x)?;
        x.transform(|x| *x = x.wrapping_mul(5) + down(DEPTH))?;
        let mut x = x.sort_by_key(|x| down(DEPTH) ^ x)?;
        seen.digest("operators", &x)?;
        let input = DVector::from_fn(session, 60, |i| i)?;
        sync_parallel_for!(
            input,
            4,
            [&mut x],
            |batch| for i in batch {
                x[*i].add(down(DEPTH));
            },
            SyncPolicy::Bsp
        )?;
        seen.digest("minibatches", &x)
    }

    pub(crate) fn as_in_a_plain_loop(session: &Session, seen: &mut Seen) -> Result {
        // The caller records, and with one thread runs all: on a stack like the main thread's.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(32 << 20).spawn_scoped(scope, || loops(session, seen));
            thread.unwrap().join().unwrap()
        })
    }
}

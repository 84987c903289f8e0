//! What a bare name in a capture list may be, besides an owned value: references, slices, texts, `Arc`s, functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use serde::{Deserialize, Serialize};

use crate::common::{below, bits};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;
use stradsap::{Error, LoopProblem};

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::references,
    bodies::shared_values,
    bodies::functions,
    bodies::by_minibatches_and_operators,
    bodies::hidden_state_is_an_error
];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Config {
    rate: f64,
    names: Vec<String>,
}

/// Nobody sees at its type that it holds an atomic.
#[derive(Default, Serialize, Deserialize)]
struct Counter {
    name: String,
    hits: AtomicU64,
}

fn refused<T: std::fmt::Debug>(result: stradsap::Result<T>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Loop { problem: LoopProblem::SharedState { .. }, .. }), "{error:?}");
    let text = error.to_string();
    for part in ["captured.rs:", "Counter", "changed while the loop ran", "session.count()"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

type Step = fn(f64) -> f64;

fn half(x: f64) -> f64 {
    x / 2.0
}

fn add_length(name: &str, x: f64) -> f64 {
    x + name.len() as f64
}

fn scale(all: &mut [f64], by: &f64) {
    all.iter_mut().for_each(|x| *x *= by);
}

/// Plain values of the elements, and the DVector of them.
fn start(session: &Session) -> stradsap::Result<(Vec<f64>, DVector<f64>)> {
    let plain: Vec<f64> = (0..80).map(|i| below(i, 1000) as f64 / 3.0).collect();
    let x = DVector::from_vec(session, plain.clone())?;
    Ok((plain, x))
}

/// Of any function.
fn apply<F: Fn(f64) -> f64 + Copy + Send + Sync + 'static>(x: &mut DVector<f64>, f: F) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..x.len(), [f, &mut *x], |i| x[i] = f(x[i]) + x[(i + 1) % 80], order = Preserve)
}

/// Of a table in any place.
#[allow(clippy::ptr_arg, reason = "it is what is tested")]
fn through_a_parameter(
    x: &mut DVector<f64>,
    table: &Vec<f64>,
    config: &Config,
    slice: &[u32],
    name: &str,
    few: &[f64; 3],
) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..60, [&mut *x, table, config, slice, name, few], |i| {
        let table: &Vec<f64> = table;
        let name: &str = name;
        x[i] += table[i] * config.rate + f64::from(slice[i % slice.len()]) + few[i % 3];
        x[60 + i % 20] += (name.len() + config.names[i % 2].len()) as f64;
    })
}

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    pub(crate) fn references(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (mut plain, mut x) = start(session)?;
        let table: Vec<f64> = (0..60).map(f64::from).collect();
        let config = Config { rate: 0.25, names: vec!["even".to_string(), "odd one".to_string()] };
        let slice = [3u32, 1, 4, 1, 5];
        for _ in 0..2 {
            let report = through_a_parameter(&mut x, &table, &config, &slice[1..], "a name", &[0.5, 1.5, 2.5])?;
            for i in report.serial_order() {
                plain[i] += table[i] * config.rate + f64::from(slice[1 + i % 4]) + [0.5, 1.5, 2.5][i % 3];
                plain[60 + i % 20] += (6 + config.names[i % 2].len()) as f64;
            }
            seen.report("parameters", &report);
        }
        assert_eq!(bits(x.to_vec()?), bits(plain.clone()));

        // A loop over what is borrowed.
        let (rates, texts) = (vec![0.5, 0.25, 0.125], HashMap::from([("a".to_string(), 2.0), ("b".to_string(), 3.0)]));
        let by_name = &texts;
        for rate in &rates {
            for (k, text) in texts.keys().map(String::as_str).filter(|text| *text < "b").enumerate() {
                async_parallel_for!(0..80, [rate, text, k, by_name, &mut x], |i| {
                    x[i] = x[i] * *rate + by_name[text] - k as f64;
                })?;
                plain.iter_mut().for_each(|x| *x = *x * *rate + 2.0);
            }
        }
        assert_eq!(bits(x.to_vec()?), bits(plain));
        Ok(())
    }

    pub(crate) fn shared_values(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (mut plain, mut x) = start(session)?;
        let config = Arc::new(Config { rate: 0.75, names: vec!["one".to_string()] });
        let (name, all): (Arc<str>, Arc<[f64]>) = ("a name".into(), vec![1.0, 2.0, 4.0].into());
        let again = &config;
        let report = async_parallel_for!(0..80, [config, name, all, again = **again, &mut x], |i| {
            let here: Arc<Config> = Arc::clone(config);
            x[i] = x[i] * here.rate + all[i % 3] + (name.len() + again.names[0].len()) as f64;
        })?;
        plain.iter_mut().enumerate().for_each(|(i, x)| *x = *x * 0.75 + all[i % 3] + 9.0);
        assert_eq!(bits(x.to_vec()?), bits(plain));
        assert_eq!((config.names.len(), Arc::strong_count(&config)), (1, 1));
        seen.report("report", &report);
        Ok(())
    }

    pub(crate) fn functions(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (mut plain, mut x) = start(session)?;
        let steps: [(&str, Step); 3] = [("half", half), ("root", f64::sqrt), ("less", |x| x - 1.0)];
        let named: fn(&str, f64) -> f64 = add_length;
        let scaling: fn(&mut [f64], &f64) = scale;
        let twice = |x: f64| 2.0 * x;
        for (name, step) in steps {
            let report = async_parallel_for!(0..40, [name, step, named, scaling, twice, half, &mut x], |i| {
                let mut pair = [half(step(x[i])), named(name, x[i + 40])];
                scaling(&mut pair, &0.5);
                x[i] = twice(pair[0]);
                x[i + 40] = twice(pair[1]);
            })?;
            for i in 0..40 {
                plain[i] = half(step(plain[i]));
                plain[i + 40] = add_length(name, plain[i + 40]);
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "{name}");
            seen.report("report", &report);
        }
        for k in 0..2 {
            let (report, f): (_, Step) = if k == 0 {
                (apply(&mut x, half)?, half)
            } else {
                (apply(&mut x, |x| 0.5 * x + 1.0)?, |x| 0.5 * x + 1.0)
            };
            (0..80).for_each(|i| plain[i] = f(plain[i]) + plain[(i + 1) % 80]);
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()));
            seen.report("generic", &report);
        }
        Ok(())
    }

    pub(crate) fn by_minibatches_and_operators(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (_, x) = start(session)?;
        let table: Vec<f64> = vec![1.0, 2.0];
        let (table, step, limits): (&Vec<f64>, Step, &[f64]) = (&table, half, &[100.0, 200.0]);
        let mut sums = DVector::from_fn(session, 2, |_| 0.0f64)?;
        sync_parallel_for!(
            x,
            10,
            [table, step, limits, &mut sums],
            |batch| {
                for x in batch {
                    sums[usize::from(*x > limits[0])].add(step(table[0]));
                }
            },
            SyncPolicy::Bsp
        )?;
        let above = with!([limits], x.filter(|x| *x > limits[0])).count()?;
        assert_eq!(sums.to_vec()?, [(80 - above) as f64 / 2.0, above as f64 / 2.0]);
        let halves = with!([step, table], x.map(|x| step(*x) * table[1])).collect()?;
        assert_eq!(bits(halves.to_vec()?), bits(x.to_vec()?));
        // Values that nobody keeps but the call.
        let scaled =
            with!([by = 1.0 + x.len() as f64, of = vec![x.len(), 7]], x.map(|x| x * by).filter(|x| *x >= of[1] as f64))
                .to_vec()?;
        let by = 1.0 + x.len() as f64;
        assert_eq!(bits(scaled), bits(x.to_vec()?.iter().map(|x| x * by).filter(|x| *x >= 7.0)));
        seen.digest("halves", &halves)
    }

    /// The second calls of both loops aren't recorded: on workers their bodies run there alone.
    pub(crate) fn hidden_state_is_an_error(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 1000, |i| i as u64)?;
        let mut y = DVector::from_fn(session, 1000, |i| i as u64)?;
        for _ in 0..3 {
            let counted = Counter::default();
            refused(async_parallel_for!(0..1000, [counted, &mut x], |i| {
                x[i] += 1;
                counted.hits.fetch_add(1, SeqCst);
            }));
            let many = vec![Some(Counter::default())];
            refused(sync_parallel_for!(
                x,
                10,
                [many, &mut y],
                |batch| {
                    let [Some(counted)] = &many[..] else { return };
                    counted.hits.fetch_add(batch.as_slice().len() as u64, SeqCst);
                    y[batch.start()].add(1);
                },
                SyncPolicy::Bsp
            ));
        }
        // DDSs hold what the loops left.
        assert_eq!((x.get(7)?, y.get(10)?), (10, 13));
        async_parallel_for!(0..1000, [&mut x], |i| x[i] *= 2)?;
        seen.digest("x", &x)?;
        seen.digest("y", &y)
    }
}

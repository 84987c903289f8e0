//! Topic models and matrix factorisation, whose schedules are known before they run (figures 6 and 7).

use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result};
use stradsap_examples::data::default_ratings;
use stradsap_examples::ratings::Ratings;

use super::curve::{Curve, Point};
use super::programs::{Epoch, Programs, Run};
use super::study::{Goal, Study};
use crate::data::{ALPHA, LAMBDA, RatingSet};
use crate::peers::Contestant;
use crate::peers::hogwild::Hogwild;

/// How a program runs: the name of the run, and the options.
const PLACES: [(&str, &str); 3] =
    [("1 thread", "--threads 1"), ("2 threads", "--threads 2"), ("2 workers", "--workers 2 --threads 1")];
/// This many strata that topic totals are merged only at an epoch's end.
const NEVER: &str = "--staleness 65535";
/// The factors' rank.
const RANK: usize = 32;
/// What `sgdmf` has where nothing else is said.
const SEED: u64 = 1;
const TEST_FRACTION: f64 = 0.1;

/// Latent Dirichlet allocation: the rotation that the planner finds, beside the twin, and with totals as stale as those of a
/// data-parallel program.
///
/// # Errors
/// A program fails.
pub fn lda(programs: &Programs, quick: bool) -> Result<Study> {
    let epochs = if quick { 15 } else { 50 };
    let topics = if quick { "--topics 50" } else { "--topics 100" };
    let mut runs = vec![("sequential twin".to_owned(), "lda_sequential", topics.to_owned())];
    runs.extend(PLACES.map(|(place, options)| (format!("rotation, {place}"), "lda", format!("{topics} {options}"))));
    let more = [
        ("rotation, 1 thread, staleness 1", "--staleness 1"),
        ("rotation, 1 thread, totals merged at an epoch's end", NEVER),
    ];
    runs.extend(more.map(|(name, options)| (name.to_owned(), "lda", format!("{topics} --threads 1 {options}"))));
    let mut curves = Vec::new();
    for (name, program, options) in runs {
        let ran = programs.run(&format!("lda-{name}"), &Run::new(program, epochs, &options))?;
        let tokens = ran.report.as_ref().map(|report| report.size("tokens")).transpose()?.unwrap_or(f64::NAN);
        curves.push(Curve::of(name, &ran, |epoch| f64::from(epoch.epoch) * tokens, |epoch| epoch.objective));
    }
    let last = last_of(&curves, 0)?;
    Ok(Study {
        name: "lda".to_owned(),
        title: "Topic model (LDA) on the repository's corpus".to_owned(),
        samples: "tokens sampled",
        objective: "log-likelihood",
        // A log-likelihood is below 0.
        goal: Goal::AtLeast(last * 1.002),
        curves,
        pictures: Vec::new(),
    })
}

/// Matrix factorisation by cyclic coordinate descent on the round-robin schedule.
///
/// # Errors
/// A program fails.
pub fn ccd(programs: &Programs, quick: bool) -> Result<Study> {
    let epochs = if quick { 15 } else { 40 };
    // As in the supplement: values are pulled towards zero.
    let own = "--centre zero --regularisation 10";
    let passes = 2.0 * RANK as f64;
    let curves = ratings(programs, ["ccdmf", "ccdmf_sequential"], own, epochs, passes, |epoch| epoch.objective)?;
    Ok(Study {
        name: "mf-ccd".to_owned(),
        title: format!("Matrix factorisation by coordinate descent, rank {RANK}, on the repository's ratings"),
        samples: "ratings gone over",
        objective: "regularised squared error",
        goal: Goal::AtMost(last_of(&curves, 0)? * 1.002),
        curves,
        pictures: Vec::new(),
    })
}

/// The same by stochastic gradient descent: the plan's order, the twin, and threads that nobody schedules.
///
/// # Errors
/// A program fails.
pub fn sgd(programs: &Programs, quick: bool) -> Result<Study> {
    let epochs = if quick { 15 } else { 40 };
    let test = |epoch: &Epoch| epoch.measure("test_rmse").unwrap_or(f64::NAN);
    let own = format!("--learning-rate {ALPHA} --regularisation {LAMBDA}");
    let mut curves = ratings(programs, ["sgdmf", "sgdmf_sequential"], &own, epochs, 1.0, test)?;
    for threads in [2, 8] {
        curves.push(hogwild(threads, epochs)?);
    }
    Ok(Study {
        name: "mf-sgd".to_owned(),
        title: format!("Matrix factorisation by gradient descent, rank {RANK}, on the repository's ratings"),
        samples: "ratings gone over",
        objective: "RMSE on the test ratings",
        goal: Goal::AtMost(last_of(&curves, 0)? * 1.002),
        curves,
        pictures: Vec::new(),
    })
}

/// The twin, and the program on one thread, on two, and on two workers.
fn ratings(
    programs: &Programs,
    [program, twin]: [&'static str; 2],
    own: &str,
    epochs: u32,
    passes: f64,
    objective: impl Fn(&Epoch) -> f64,
) -> Result<Vec<Curve>> {
    let mut runs = vec![("sequential twin".to_owned(), twin, String::new())];
    runs.extend(PLACES.map(|(place, options)| (format!("scheduled, {place}"), program, options.to_owned())));
    let mut curves = Vec::new();
    for (name, program, options) in runs {
        let run = Run::new(program, epochs, &format!("--rank {RANK} {own} {options}"));
        let ran = programs.run(&format!("{program}-{name}"), &run)?;
        let train = ran.report.as_ref().map(|report| report.size("train")).transpose()?.unwrap_or(f64::NAN);
        curves.push(Curve::of(name, &ran, |epoch| f64::from(epoch.epoch) * train * passes, &objective));
    }
    Ok(curves)
}

/// Threads that update shared rows without locks or a schedule, in this process.
fn hogwild(threads: usize, epochs: u32) -> Result<Curve> {
    // As `sgdmf` has them: numbered, split and shuffled by the same seed.
    let path = default_ratings()?;
    let mut ratings = Ratings::read(&path)?;
    ratings.renumber(SEED);
    let mut split = ratings.split(&path, SEED, TEST_FRACTION)?;
    split.shuffle(SEED);
    let set = RatingSet::new("anime", ratings.users.len(), ratings.items.len(), &split.train, &split.test);
    let mut contestant = Hogwild::<RANK>::new(&set, threads);
    let (mut points, mut seconds) = (Vec::new(), 0.0);
    for epoch in 1..=epochs {
        let clock = Instant::now();
        contestant.epoch()?;
        seconds += clock.elapsed().as_secs_f64();
        points.push(Point {
            epoch,
            seconds,
            samples: f64::from(epoch) * set.train.len() as f64,
            objective: contestant.factors()?.rmse(&set.test),
            rounds: None,
            updates: None,
            columns_read: None,
            staleness: None,
            bytes: 0,
        });
    }
    let cores = available_parallelism().map_or(1, usize::from);
    let name = format!("no schedule, no locks (Hogwild), {threads} threads on {cores} cores");
    Ok(Curve { name, points, diverged: None })
}

fn last_of(curves: &[Curve], curve: usize) -> Result<f64> {
    let last = curves.get(curve).and_then(|curve| curve.points.last());
    last.map(|point| point.objective).context("the twin has no epoch")
}

//! Lasso and sparse logistic regression by each of the paper's schedules (figures 4, 10 and 11).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::curve::Curve;
use super::programs::{Epoch, Programs, Ran, Run};
use super::study::{Goal, Study};

/// What samples are.
pub const SAMPLES: &str = "values gone over by updates";

const SCHEDULES: [&str; 4] = ["random", "cyclic", "priority", "priority+dependency"];

/// A program and its twin.
#[derive(Clone, Copy)]
pub struct Method {
    /// The program.
    pub program: &'static str,
    /// The sequential program.
    pub twin: &'static str,
    /// What it minimises.
    pub title: &'static str,
    /// How near the least objective is near enough: steps of the logistic loss are shorter than they could be, since the
    /// schedules take its curvature for the largest that there is.
    pub part: f64,
    /// Options of all runs.
    pub options: &'static str,
}

/// The Lasso.
pub const LASSO: Method =
    Method { program: "lasso", twin: "lasso_sequential", title: "Lasso", part: 1e-3, options: "" };
/// Logistic regression with an L1 penalty.
pub const LOGISTIC: Method = Method {
    program: "logistic",
    twin: "logistic_sequential",
    title: "Sparse logistic regression",
    part: 1e-2,
    options: "--no-intercept --columns scaled",
};

/// A set of examples.
pub struct Set {
    /// What it is called.
    pub name: String,
    /// Where it is, unless it is the programs' own.
    pub path: Option<PathBuf>,
}

/// The repository's sets, and those in a folder that are known by name.
///
/// # Errors
/// There is none of them in the folder.
pub fn sets(folder: Option<&Path>) -> Result<Vec<Set>> {
    let a9a = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/a9a.gz");
    let mut sets =
        vec![Set { name: "reuters".to_owned(), path: None }, Set { name: "a9a".to_owned(), path: Some(a9a) }];
    let Some(folder) = folder else { return Ok(sets) };
    for name in ["arcene", "leukemia-golub", "colon-alon"] {
        let places = [folder.to_path_buf(), folder.join("libsvm")];
        let files = places.iter().flat_map(|place| [place.join(name), place.join(format!("{name}.gz"))]);
        let found = files.into_iter().find(|file| file.is_file());
        sets.extend(found.map(|path| Set { name: name.to_owned(), path: Some(path) }));
    }
    if sets.len() == 2 {
        bail!(
            "--data-dir {}: arcene, leukemia-golub or colon-alon was expected there or in libsvm, with or without .gz",
            folder.display()
        );
    }
    Ok(sets)
}

/// Values that updates went over, up to the end of an epoch.
pub fn samples(epoch: &Epoch) -> f64 {
    epoch.measure("values_touched").unwrap_or(f64::NAN)
}

/// The least objective, and the size of the data: of a run that is solved far beyond what is drawn.
///
/// # Errors
/// The program fails or doesn't converge.
pub fn solved(programs: &Programs, method: Method, set: &Set) -> Result<(f64, f64)> {
    let run = Run::new(method.program, 300, &format!("--tolerance 1e-10 --threads 1 {}", method.options))
        .on(set.path.as_deref());
    let label = format!("{}-{}-solved", method.program, set.name);
    let report = programs.run(&label, &run)?.report.with_context(|| format!("{label}: it diverges"))?;
    let last = report.epochs.last().with_context(|| format!("{label}: it has no epoch"))?;
    let gap = last.measure("relative_gap").unwrap_or(f64::NAN);
    // Rounding keeps the gap of logistic regression from closing further; the objective is nearer than it tells.
    if gap.is_nan() || gap > 1e-6 {
        bail!("{label}: the relative gap is {gap:e}; at most 1e-6 was expected");
    }
    let least = report.epochs.iter().map(|epoch| epoch.objective).fold(f64::INFINITY, f64::min);
    Ok((least, report.size("columns")?))
}

/// Every schedule with each number of concurrent updates, and the twin.
///
/// # Errors
/// A program fails.
pub fn study(programs: &Programs, method: Method, set: &Set, quick: bool) -> Result<Study> {
    let (least, columns) = solved(programs, method, set)?;
    let concurrent: &[usize] = if quick { &[4, 64] } else { &[4, 16, 64] };
    let passes = if quick { 12 } else { 40 };
    // An epoch of the schedules is a part of a pass, so that there are points enough to draw.
    let parts = 4;
    let updates = (columns as u64 / u64::from(parts)).max(1);
    let curve = |name: &str, ran: &Ran| Curve::of(name, ran, samples, |epoch| epoch.objective);
    let run = |label: &str, run: Run| {
        let label = format!("{}-{}-{label}", method.program, set.name);
        programs.run(&label, &run.on(set.path.as_deref()))
    };

    let twin = run("twin", Run::new(method.twin, passes, &format!("--tolerance 1e-6 {}", method.options)))?;
    let mut curves = vec![curve("sequential twin, cyclic", &twin)];
    let mut pictures = Vec::new();
    let mut random = vec![0];
    for &width in concurrent {
        let mut these = vec![0];
        for schedule in SCHEDULES {
            let options = format!(
                "--schedule {schedule} --concurrent {width} --updates-per-epoch {updates} --pipeline 1 --threads 1 \
                 --tolerance 1e-6 {}",
                method.options
            );
            let ran = run(&format!("{schedule}-{width}"), Run::new(method.program, passes * parts, &options))?;
            these.push(curves.len());
            if schedule == "random" {
                random.push(curves.len());
            }
            curves.push(curve(&format!("{schedule}, {width} at a time"), &ran));
        }
        pictures.push((format!("{width} at a time"), these));
    }
    pictures.push(("random".to_owned(), random));
    Ok(Study {
        name: format!("{}-{}", method.program, set.name),
        title: format!("{} on {}", method.title, set.name),
        samples: SAMPLES,
        objective: "objective",
        goal: Goal::Least { least, part: method.part },
        curves,
        pictures,
    })
}

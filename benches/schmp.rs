//! The figures of the STRADS paper (EuroSys 2016, section 5), drawn again with the example programs: objective against samples,
//! samples against time, objective against time. `cargo bench --bench schmp -- --help` lists the options; docs/schmp.md says what
//! each picture shows.
//!
//! The method: cargo builds the examples, each runs with `--report`, and what the reports say becomes CSV files and pictures.
//! Runs come one after the other; nothing else should run meanwhile.
//!
//! It reports and never judges: a slow run is not a failure.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use stradsap_benches::harness::{benchmarking, exit_code};
use stradsap_benches::schmp::programs::Programs;
use stradsap_benches::schmp::regression::{LASSO, LOGISTIC, Method};
use stradsap_benches::schmp::study::{SUMMARY, Study};
use stradsap_benches::schmp::{link, pipeline, regression, statics};
use stradsap_benches::table::{Table, create};

/// The figures of scheduled model parallelism: LDA, matrix factorisation, Lasso and sparse logistic regression.
#[derive(Parser)]
#[command(name = "schmp")]
struct Options {
    /// Only these [default: all]
    #[arg(long, value_name = "WHAT")]
    only: Vec<What>,
    /// Where the CSV files, the pictures and the programs' reports go [default: schmp in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where arcene, leukemia-golub and colon-alon are, in LIBSVM's format: more sets for Lasso and logistic regression
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// By how many milliseconds the pipeline's links are slowed in each direction
    #[arg(long, value_name = "MS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    delay: u64,
    /// Fewer epochs, fewer runs
    #[arg(long)]
    quick: bool,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    /// Topic models
    Lda,
    /// Matrix factorisation
    Mf,
    /// Lasso
    Lasso,
    /// Sparse logistic regression
    Logistic,
    /// Rounds in flight on two worker processes
    Pipeline,
}

impl What {
    fn programs(self) -> &'static [&'static str] {
        match self {
            What::Lda => &["lda", "lda_sequential"],
            What::Mf => &["ccdmf", "ccdmf_sequential", "sgdmf", "sgdmf_sequential"],
            What::Lasso => &["lasso", "lasso_sequential"],
            What::Logistic => &["logistic", "logistic_sequential"],
            What::Pipeline => &["lasso"],
        }
    }
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(&options))
}

fn run(options: &Options) -> Result<()> {
    let out = options.out.clone().map_or_else(default_folder, Ok)?;
    std::fs::create_dir_all(&out).with_context(|| format!("can't make {}", out.display()))?;
    let all = What::value_variants().iter().copied();
    let chosen: Vec<What> = all.filter(|what| options.only.is_empty() || options.only.contains(what)).collect();
    let mut names: Vec<&str> = chosen.iter().flat_map(|what| what.programs()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let programs = Programs::build(&names, out.join("reports"))?;
    let cores = available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; one run after the other{}", if options.quick { "; quick" } else { "" });

    let mut summary = Table::new(&SUMMARY);
    for what in chosen {
        let mut done = |study: Result<Study>, start: Instant| show(&study?, &out, start, &mut summary);
        let start = Instant::now();
        match what {
            What::Lda => done(statics::lda(&programs, options.quick), start)?,
            What::Mf => {
                done(statics::ccd(&programs, options.quick), start)?;
                let start = Instant::now();
                done(statics::sgd(&programs, options.quick), start)?;
            }
            What::Lasso => regressions(&programs, LASSO, options, &mut done)?,
            What::Logistic => regressions(&programs, LOGISTIC, options, &mut done)?,
            What::Pipeline => {
                if pipeline::possible() {
                    let delay = Duration::from_millis(options.delay);
                    println!(
                        "\na byte through a link slowed by {delay:?} is back after {:?}",
                        link::round_trip(pipeline::delays(delay))?
                    );
                    done(pipeline::study(&programs, Some(delay), options.quick), start)?;
                } else {
                    println!("\nlinks aren't slowed: this system has no /proc that tells where workers listen");
                }
                let start = Instant::now();
                done(pipeline::study(&programs, None, options.quick), start)?;
            }
        }
    }
    println!("\n{summary}");
    summary.write_csv(create(&out.join("summary.csv"))?)?;
    println!("{} has the numbers and pictures", out.display());
    Ok(())
}

fn regressions(
    programs: &Programs,
    method: Method,
    options: &Options,
    done: &mut impl FnMut(Result<Study>, Instant) -> Result<()>,
) -> Result<()> {
    for set in regression::sets(options.data_dir.as_deref())? {
        let start = Instant::now();
        done(regression::study(programs, method, &set, options.quick), start)?;
    }
    Ok(())
}

/// Writes a study, and says what it was about.
fn show(study: &Study, out: &Path, start: Instant, summary: &mut Table) -> Result<()> {
    let files = study.write(out)?;
    println!("\n{} ({:.1} s)\n  {}", study.title, start.elapsed().as_secs_f64(), files.join(" "));
    println!("  the table counts up to the first epoch with an objective {}", study.goal.said());
    summary.append(study.summary());
    Ok(())
}

/// `schmp` in cargo's target folder: this program lies in a folder of a folder of it.
fn default_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where this program lies isn't known")?;
    let target = program.ancestors().nth(3).context("this program lies in no target folder; --out DIR was expected")?;
    Ok(target.join("schmp"))
}

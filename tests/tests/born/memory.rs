//! The driver's memory doesn't grow with what workers read and train on.

use std::path::Path;
use std::time::Duration;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::files::{Folder, Rating, ratings};
use super::trained::{epoch, rows};
use crate::jobs::processes::{Process, memory, this_program};
use crate::jobs::runner::Test;

const FILE: &str = "TESTS_BORN_FILE";
const WORKERS: &str = "TESTS_BORN_WORKERS";

/// More than the driver needs for anything else.
const FEW: usize = 400_000;
const MANY: usize = 3_000_000;

/// Trains as a program of its own, if that was asked for, and prints its peak.
#[allow(clippy::print_stdout)]
pub(crate) fn asked_for(session: &Session) -> Option<stradsap::Result<()>> {
    let file = std::env::var(FILE).ok()?;
    let workers: usize = std::env::var(WORKERS).unwrap().parse().unwrap();
    Some((|| {
        if workers > 0 {
            session.start_workers(&ClusterOptions::new(workers).threads(1).driver_memory(1 << 20))?;
        }
        let read = session.read_csv::<Rating>(file)?;
        let (mut p, mut q) = (rows(session, 997)?, rows(session, 613)?);
        for _epoch in 0..2 {
            epoch(session, &read, &mut p, &mut q)?;
        }
        let good = read.filter(|r| r.stars > 2.0).count()?;
        println!("digest {} {} {good}", p.digest()?, q.digest()?);
        println!("peak {}", memory(std::process::id()).unwrap().0);
        Ok(())
    })())
}

/// What a run leaves, and its driver's peak in KiB.
fn ran(file: &Path, workers: usize) -> (String, u64) {
    let mut program = Process::start(this_program().env(FILE, file).env(WORKERS, workers.to_string()));
    let limit = Duration::from_secs(60);
    let digest = program.line("digest ", limit);
    (digest, program.line("peak ", limit).parse().unwrap())
}

fn flat() {
    let folder = Folder::new();
    let (few, many) = (folder.file("few.csv", ratings(FEW, "\n")), folder.file("many.csv", ratings(MANY, "\n")));
    let (expected, alone) = ran(&many, 0);
    for workers in [2, 4] {
        let (_, before) = ran(&few, workers);
        let (digest, peak) = ran(&many, workers);
        assert_eq!(digest, expected, "{workers} workers");
        // Elements and their order are 40 MB more.
        eprintln!("{workers} workers: {before} KiB have become {peak}, {alone} in one process");
        assert!(peak <= before + 2048, "{before} KiB have become {peak}");
        assert!(2 * peak < alone, "{alone} KiB alone, {peak} in the driver");
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("the driver's memory is flat", 120, flat)]
}

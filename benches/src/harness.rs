//! Timing contestants in alternation, so that whatever else the machine does falls on all of them alike.

use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Instant;

use anyhow::Result;

/// The seconds that one contestant took, one figure a round.
#[derive(Clone)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Samples of seconds; at least one.
    pub fn new(seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "no samples");
        let mut sorted = seconds;
        sorted.sort_unstable_by(f64::total_cmp);
        Self(sorted)
    }

    /// The median; of an even number of samples the mean of the middle two.
    pub fn median(&self) -> f64 {
        let (low, high) = ((self.0.len() - 1) / 2, self.0.len() / 2);
        (self.0[low] + self.0[high]) / 2.0
    }

    /// The fastest.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The slowest.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// The samples divided by `n`: seconds for one of `n` equal pieces of work.
    #[must_use]
    pub fn per(&self, n: usize) -> Self {
        Self(self.0.iter().map(|seconds| seconds / n as f64).collect())
    }
}

/// Runs `run` for each contestant in turn, `rounds` times over (A B C, A B C, ...), and gives each one's samples.
///
/// # Errors
/// The first error of `run`.
pub fn alternate<C>(
    contestants: &mut [C],
    rounds: usize,
    mut run: impl FnMut(&mut C) -> Result<()>,
) -> Result<Vec<Samples>> {
    let mut seconds = vec![Vec::with_capacity(rounds); contestants.len()];
    for _ in 0..rounds.max(1) {
        for (contestant, seconds) in contestants.iter_mut().zip(&mut seconds) {
            let start = Instant::now();
            run(contestant)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(seconds.into_iter().map(Samples::new).collect())
}

/// Whether cargo runs this as a benchmark. `cargo test --all-targets` runs benchmarks too, to see that they work:
/// then they should be brief, and say so.
pub fn benchmarking() -> bool {
    static ASKED: LazyLock<bool> = LazyLock::new(|| {
        let asked = std::env::args().any(|argument| argument == "--bench");
        if !asked {
            eprintln!("a brief run with little data, as `--bench` isn't given: its times say nothing");
        }
        asked
    });
    *ASKED
}

/// The exit code of a benchmark: 1 after an error, which goes to standard error in one line.
pub fn exit_code(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_take_turns() {
        let mut order = Vec::new();
        let samples = alternate(&mut ["a", "b"], 2, |name| {
            order.push(*name);
            Ok(())
        })
        .expect("nothing fails");
        assert_eq!(order, ["a", "b", "a", "b"]);
        assert_eq!(samples.len(), 2);
    }

    #[test]
    fn the_median_is_the_middle() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((samples.min(), samples.median(), samples.max()), (1.0, 2.0, 3.0));
        assert_eq!(Samples::new(vec![4.0, 1.0]).per(2).median(), 1.25);
    }
}

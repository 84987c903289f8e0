//! The program written by hand for MPI, as `mpirun` runs it: told over a pipe how many epochs to run, it answers with a
//! line for each. Between turns its ranks sleep, so that they don't disturb the others.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The ranks, waiting to be told.
pub struct Ranks {
    mpirun: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Settings of the C library's allocator.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// What the program says when its data are ready.
pub const READY: &str = "ready";

/// An epoch as rank 0 timed it, from a barrier to the sum of the losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// How long it took.
    pub seconds: f64,
    /// The sum of the squared errors met on the way.
    pub loss: f64,
}

impl Epoch {
    /// The line in which the program tells.
    pub fn line(&self) -> String {
        format!("{} {}", self.seconds, self.loss)
    }

    fn from_line(line: &str) -> Option<Epoch> {
        let (seconds, loss) = line.trim().split_once(' ')?;
        Some(Epoch { seconds: seconds.parse().ok()?, loss: loss.parse().ok()? })
    }
}

impl Ranks {
    /// Starts `program` on this many ranks by the command `mpirun`, with `parts` parts a side, and waits until it has its
    /// data.
    ///
    /// # Errors
    /// `mpirun` or the program doesn't start.
    pub fn start(mpirun: &str, program: &Path, ranks: usize, parts: usize, quick: bool) -> Result<Self> {
        let mut words = mpirun.split_whitespace();
        let mut command = Command::new(words.next().context("--mpirun: a command was expected")?);
        command.args(words).args(["-np", &ranks.to_string()]).arg(program).args(["--parts", &parts.to_string()]);
        if quick {
            command.arg("--quick");
        }
        // Open MPI asks twice whether root may run programs: in a container everybody is root.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Rows at random places want large pages, as stradsap's have.
        if std::env::var_os(TUNABLES).is_none() {
            command.env(TUNABLES, "glibc.malloc.hugetlb=1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{mpirun} can't be started"))?;
        let (orders, Some(answers)) = (child.stdin.take(), child.stdout.take()) else { bail!("{mpirun} has no pipes") };
        let mut ranks = Self { mpirun: child, orders, answers: BufReader::new(answers) };
        let said = ranks.line()?;
        if said.trim() != READY {
            bail!("{}: `{READY}` was expected from the MPI program, but it said `{}`", program.display(), said.trim());
        }
        Ok(ranks)
    }

    /// This many epochs.
    ///
    /// # Errors
    /// The program has ended, or says something else.
    pub fn epochs(&mut self, count: usize) -> Result<Vec<Epoch>> {
        let orders = self.orders.as_mut().context("the MPI program was told to end")?;
        writeln!(orders, "{count}").and_then(|()| orders.flush()).context("the MPI program has ended")?;
        let mut epochs = Vec::with_capacity(count);
        for _ in 0..count {
            let line = self.line()?;
            let epoch = Epoch::from_line(&line);
            epochs.push(epoch.with_context(|| format!("seconds and loss were expected, but `{}` came", line.trim()))?);
        }
        Ok(epochs)
    }

    /// The number of parts a side, of some, with which the program is fastest; each gets three epochs.
    ///
    /// # Errors
    /// As [`Ranks::start`]; no number is given.
    pub fn fastest(mpirun: &str, program: &Path, ranks: usize, parts: &[usize], quick: bool) -> Result<usize> {
        let mut tried = Vec::new();
        for &parts in parts {
            let epochs = Self::start(mpirun, program, ranks, parts, quick)?.epochs(3)?;
            tried.push((epochs.iter().map(|epoch| epoch.seconds).fold(f64::INFINITY, f64::min), parts));
        }
        let best = tried.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, parts)| parts).context("no number of parts is to be tried")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the MPI program ended early");
        }
        Ok(line)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        drop(self.orders.take()); // the end of its input is the program's end
        if let Err(error) = self.mpirun.wait() {
            eprintln!("warning: the end of mpirun: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_read_as_they_are_told() {
        let epoch = Epoch { seconds: 0.25, loss: 1e6 + 0.125 };
        assert_eq!(Epoch::from_line(&epoch.line()), Some(epoch));
        assert_eq!(Epoch::from_line("0.25"), None);
    }
}

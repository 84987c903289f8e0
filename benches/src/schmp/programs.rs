//! The example programs: built by cargo, run with `--report`, and what their reports say.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The programs that were built, and where their reports go.
pub struct Programs {
    built: BTreeMap<String, PathBuf>,
    reports: PathBuf,
}

/// A program with its options.
#[derive(Clone)]
pub struct Run {
    program: &'static str,
    epochs: u32,
    options: Vec<String>,
}

/// What a run came to.
pub struct Ran {
    /// Of the epochs whose objective is finite, if there are any.
    pub report: Option<Report>,
    /// The epoch in which the objective was no longer finite.
    pub diverged: Option<u32>,
}

/// A report, as far as it is drawn.
#[derive(Deserialize)]
pub struct Report {
    /// The data's size.
    pub data: BTreeMap<String, Value>,
    /// The epochs that ran.
    pub epochs: Vec<Epoch>,
}

/// An epoch.
#[derive(Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: u32,
    /// Seconds of training.
    pub seconds: f64,
    /// What the program minimises or maximises.
    pub objective: f64,
    /// Bytes that processes sent each other.
    pub bytes_sent: u64,
    #[serde(flatten)]
    measures: BTreeMap<String, Value>,
}

impl Report {
    /// A number of the data's size.
    ///
    /// # Errors
    /// The report has none of that name.
    pub fn size(&self, name: &str) -> Result<f64> {
        self.data.get(name).and_then(Value::as_f64).with_context(|| format!("the report's data has no number `{name}`"))
    }
}

impl Epoch {
    /// One of the program's own measures, if it has it.
    pub fn measure(&self, name: &str) -> Option<f64> {
        self.measures.get(name).and_then(Value::as_f64)
    }
}

impl Run {
    /// A program with options, which are words with spaces between, for this many epochs.
    pub fn new(program: &'static str, epochs: u32, options: &str) -> Run {
        Run { program, epochs, options: options.split_whitespace().map(str::to_owned).collect() }
    }

    /// On this data rather than on the repository's.
    pub fn on(mut self, data: Option<&Path>) -> Run {
        self.options.extend(data.iter().flat_map(|path| ["--data".to_owned(), path.display().to_string()]));
        self
    }
}

/// What cargo says of a thing that it built.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Programs {
    /// Builds examples, as fast ones as this program is. Reports are kept in `reports`.
    ///
    /// # Errors
    /// cargo can't build them.
    pub fn build(names: &[&str], reports: PathBuf) -> Result<Programs> {
        fs::create_dir_all(&reports).with_context(|| format!("can't make {}", reports.display()))?;
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg("build").arg("--manifest-path").arg(workspace).args([
            "-p",
            "stradsap-examples",
            "-p",
            "stradsap-gallery",
        ]);
        cargo.arg("--message-format=json-render-diagnostics");
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        names.iter().for_each(|name| _ = cargo.args(["--example", name]));
        let output = cargo.stderr(Stdio::inherit()).output().context("cargo can't be started")?;
        ensure!(output.status.success(), "cargo can't build the examples");
        let lines = String::from_utf8_lossy(&output.stdout);
        let artifacts = lines.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
        let built: BTreeMap<String, PathBuf> =
            artifacts.filter_map(|artifact| Some((artifact.target.name, artifact.executable?))).collect();
        if let Some(missing) = names.iter().find(|name| !built.contains_key(**name)) {
            bail!("cargo doesn't say where it put the example {missing}");
        }
        Ok(Programs { built, reports })
    }

    /// A command for a program, without this process's settings for the library.
    ///
    /// # Errors
    /// It wasn't built.
    pub fn command(&self, program: &str) -> Result<Command> {
        let path = self.built.get(program).with_context(|| format!("the example {program} wasn't built"))?;
        let mut command = Command::new(path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STRADSAP_") {
                command.env_remove(name);
            }
        }
        // Under mpirun or Slurm it is still an ordinary program.
        command.env("STRADSAP_ROLE", "driver");
        Ok(command)
    }

    /// Runs a program. `label` names its report.
    ///
    /// # Errors
    /// It fails, unless it diverges.
    pub fn run(&self, label: &str, run: &Run) -> Result<Ran> {
        self.run_with(label, run, |mut driver| driver.output().context("an example can't be started"))
    }

    /// The same with an own way to run the command to its end. A program that diverges leaves no report, so that it runs
    /// again, up to the epoch before.
    ///
    /// # Errors
    /// It fails, unless it diverges.
    pub fn run_with(&self, label: &str, run: &Run, mut end: impl FnMut(Command) -> Result<Output>) -> Result<Ran> {
        let path = self.reports.join(format!("{}.json", file_name(label)));
        let mut epochs = run.epochs;
        let mut diverged = None;
        loop {
            let mut command = self.command(run.program)?;
            command.args(&run.options).args(["--epochs", &epochs.to_string(), "--report"]).arg(&path);
            let output = end(command).with_context(|| label.to_owned())?;
            if output.status.success() {
                let text = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
                let report = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
                return Ok(Ran { report: Some(report), diverged });
            }
            let said = String::from_utf8_lossy(&output.stderr);
            let Some(epoch) = divergence(&said).filter(|_| diverged.is_none()) else {
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
                bail!("{label}: {} ended with {}: {last}", run.program, output.status);
            };
            diverged = Some(epoch);
            if epoch <= 1 {
                return Ok(Ran { report: None, diverged });
            }
            epochs = epoch - 1;
        }
    }
}

/// The epoch that a program says it diverged in.
fn divergence(said: &str) -> Option<u32> {
    let (_, after) = said.split_once("training diverged in epoch ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What a label is as the name of a file.
pub fn file_name(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    label.chars().map(plain).collect()
}

/// A process that is ended when nobody wants it any more.
pub struct Held(pub Child);

impl Held {
    /// Waits for its end, and takes what it wrote meanwhile.
    ///
    /// # Errors
    /// It can't be waited for.
    pub fn output(mut self) -> Result<Output> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (self.0.stdout.take(), self.0.stderr.take());
        std::thread::scope(|scope| -> std::io::Result<()> {
            let reading = scope.spawn(|| stderr.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut err)));
            stdout.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut out))?;
            reading.join().unwrap_or(Ok(0)).map(|_| ())
        })?;
        let status = self.0.wait()?;
        Ok(Output { status, stdout: out, stderr: err })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let (_, _) = (self.0.kill(), self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_of_a_divergence_is_found() {
        let said = "epoch 3\nerror: training diverged in epoch 14: the objective is inf; try a smaller --concurrent\n";
        assert_eq!(divergence(said), Some(14));
        assert_eq!(divergence("error: 14 epochs"), None);
    }

    #[test]
    fn labels_become_names_of_files() {
        assert_eq!(file_name("lasso-a9a-priority+dependency, 4"), "lasso-a9a-priority_dependency__4");
    }

    #[test]
    fn reports_are_read() {
        let text = r#"{"data": {"columns": 9}, "epochs": [{"epoch": 1, "seconds": 0.5, "objective": -2.0, "bytes_sent": 0,
            "updates": 7, "test_rmse": null}], "more": 1}"#;
        let report: Report = serde_json::from_str(text).expect("a report");
        assert_eq!(report.size("columns").expect("a number"), 9.0);
        assert!(report.size("tokens").is_err());
        let epoch = &report.epochs[0];
        assert_eq!((epoch.epoch, epoch.measure("updates"), epoch.measure("test_rmse")), (1, Some(7.0), None));
    }
}

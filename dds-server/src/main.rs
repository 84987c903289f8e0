//! The `dds-server` binary: holds snapshots of parts for a job.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use stradsap_dds_server::logging;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::server::{self, ServerConfig};

/// Holds snapshots of the data of a stradsap job, until its driver ends.
///
/// The job's secret is read from STRADSAP_SECRET (64 hexadecimal digits) or from the file that STRADSAP_SECRET_FILE names.
/// STRADSAP_LOG says what is logged: error, warn, info, debug or trace.
#[derive(Parser)]
#[command(name = "dds-server", version)]
struct Arguments {
    /// Where the driver listens (otherwise: STRADSAP_JOIN)
    #[arg(long, value_name = "HOST:PORT")]
    join: Option<String>,
    /// Where to listen for workers; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    bind: String,
    /// The most memory that snapshots may take (default: the machine's)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    memory: Option<u64>,
    /// A folder on a disk, for the snapshots that take more than half of that memory: files without names (otherwise: STRADSAP_SPILL, and
    /// STRADSAP_MEMORY, such as 2GiB)
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// This server's place among the servers (otherwise: STRADSAP_INDEX)
    #[arg(long, value_name = "N")]
    index: Option<u32>,
}

/// What is taken for the machine's memory where it can't be asked.
const UNKNOWN_MEMORY: u64 = 8 << 30;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => error.exit(),
        Err(error) => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            return fail(line.strip_prefix("error: ").unwrap_or(line), 2);
        }
    };
    let _logging = match logging::start("server") {
        Ok(logging) => logging,
        Err(error) => return fail(&error.to_string(), 2),
    };
    let config = match config(arguments) {
        Ok(config) => config,
        Err(why) => return fail(&why, 2),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no event loop: {error}"), 1),
    };
    match runtime.block_on(server::run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn config(arguments: Arguments) -> Result<ServerConfig, String> {
    let secret = Secret::from_environment().map_err(|error| error.to_string())?;
    let secret = secret.ok_or("no secret: set STRADSAP_SECRET or STRADSAP_SECRET_FILE to that of the driver")?;
    let join = arguments.join.or_else(|| std::env::var("STRADSAP_JOIN").ok());
    let join = join.ok_or("--join: HOST:PORT of the driver was expected, here or in STRADSAP_JOIN")?;
    let memory = arguments.memory.map_or_else(machine_memory, |mib| mib << 20);
    let spill = server::spill(arguments.spill, memory)?;
    let index = match arguments.index {
        Some(index) => Some(index),
        None => number("STRADSAP_INDEX")?,
    };
    let generation = number("STRADSAP_GENERATION")?.unwrap_or(0);
    Ok(ServerConfig {
        bind: arguments.bind,
        explicit_secret: true,
        spill,
        index,
        generation,
        ..ServerConfig::new(join, secret, memory)
    })
}

fn number(variable: &str) -> Result<Option<u32>, String> {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().map(Some).map_err(|_| format!("{variable}: a whole number was expected, but it is `{text}`"))
        }
        Err(_) => Ok(None),
    }
}

fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(UNKNOWN_MEMORY, |kib| kib << 10)
}

fn fail(why: &str, code: u8) -> ExitCode {
    eprintln!("dds-server: {why}");
    ExitCode::from(code)
}

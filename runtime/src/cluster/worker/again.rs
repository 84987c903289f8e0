//! A worker that was put out of its job joins it again: it was stopped, or cut off for a while. A new program takes the place of this one
//! in its process, since a body may still run here.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use stradsap_dds_server::{heartbeat, net};

use crate::launch::roles::{Join, WorkerRole};
use crate::session::logging::warning;

/// How often this process has joined again, not long after it had joined before.
const TIMES: &str = "STRADSAP_JOINED_AGAIN";
/// The pause before it does; it doubles each time: the job has more of a worker that stays away than of one that is lost all the time.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(256);
/// One that took part for so long was no worker that is lost all the time.
const LONG: Duration = Duration::from_secs(60);
const ONE_TRY: Duration = Duration::from_secs(2);

/// Whether this process had joined its job before: then the driver is there, or the job is over.
pub(crate) fn had_joined() -> bool {
    std::env::var_os(TIMES).is_some()
}

/// Joins again, if the driver still listens; otherwise returns. `since` is when this process joined, `why` why it is out.
pub(super) async fn join_again(role: &WorkerRole, since: Instant, why: &str) {
    let Join::Address(address) = &role.join else { return };
    // In the place of its own children the driver starts others.
    if role.generation > 0 {
        return;
    }
    let known = std::env::var(TIMES).ok().and_then(|text| text.parse().ok());
    let times: u32 = known.filter(|_| since.elapsed() < LONG).unwrap_or(0);
    tokio::time::sleep((PAUSE * 2u32.saturating_pow(times.min(16))).min(LONGEST_PAUSE)).await;
    let until = Instant::now() + heartbeat::pause();
    while let Err(error) = net::connect(address, ONE_TRY).await {
        // Nobody listens: the job is over. Other errors may pass, as when a network is down.
        if error.is_refused() || Instant::now() > until {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    warning!("this worker was put out of its job ({why}), and joins again");
    // On Linux the same file, even where there is another one under its name by now.
    let own = if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() };
    let Ok(own) = own else { return };
    let (mut command, mut words) = (Command::new(&own), std::env::args_os());
    command.arg0(words.next().unwrap_or(own.into_os_string()));
    let failed = command.args(words).env(TIMES, (times + 1).to_string()).exec();
    warning!("this worker can't join again: {failed}");
}

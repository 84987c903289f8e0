//! Signals that all processes of a job get together: Ctrl-C in a terminal, those of a batch system that needs the machine.
//! Whether the job ends then, and when, is the driver's matter.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// How long a worker or server goes on after SIGTERM, if its driver doesn't end the job before.
pub const GRACE: Duration = Duration::from_secs(300);

/// The exit code after SIGTERM, as shells have it.
const TERMINATED: i32 = 128 + 15;

static TOLD: AtomicBool = AtomicBool::new(false);

/// Whether this process was told to end, by SIGTERM. Its heartbeats say so.
pub fn is_told() -> bool {
    TOLD.load(Relaxed)
}

/// Ends this process some time after SIGTERM, and at once after a second one. SIGINT and SIGUSR1 are for the driver.
pub async fn end_when_told() {
    let user = SignalKind::user_defined1();
    let watched = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(user));
    let (Ok(mut told), Ok(_interrupts), Ok(_warnings)) = watched else {
        tracing::warn!("signals end this process at once, since they can't be watched");
        return;
    };
    told.recv().await;
    TOLD.store(true, Relaxed);
    tracing::info!("SIGTERM: going on until the driver ends or lets this process go, or for {GRACE:?}");
    // Either way it is time.
    let _again = tokio::time::timeout(GRACE, told.recv()).await;
    std::process::exit(TERMINATED);
}

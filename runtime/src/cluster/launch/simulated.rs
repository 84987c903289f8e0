//! Workers and DDS servers as processes of a simulation.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::server::{self, ServerConfig};
use stradsap_dds_server::simulation::{self, End};

use crate::cluster::launch::children::{ChildSettings, ProcessEnd};
use crate::cluster::worker;
use crate::launch::roles::{Join, WorkerRole};
use crate::session::Session;

/// The most bytes of snapshots that a server holds.
const MEMORY: u64 = 1 << 40;
/// How long a process takes until its own code runs, in milliseconds.
const STARTING: u64 = 60;

/// A process that the driver has started.
pub(super) struct Process(Arc<simulation::Process>);

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Process {
    pub(super) fn number(&self) -> u32 {
        self.0.number()
    }

    pub(super) fn ended(&self) -> Option<ProcessEnd> {
        self.0.ended().map(|end| match end {
            End::Code(code) => ProcessEnd::Code(code),
            End::Signal(signal) => ProcessEnd::Signal(signal),
        })
    }

    pub(super) fn kill(&self) {
        self.0.end(End::Signal(libc::SIGKILL), false);
    }
}

pub(super) fn worker(settings: &ChildSettings) -> Process {
    let role = WorkerRole {
        join: Join::Address(settings.join.clone()),
        threads: settings.threads,
        workers_here: 1,
        index: Some(settings.index),
        generation: settings.generation,
    };
    start("worker", settings, async move {
        let session = Session::builder().threads(1).verify(false).explain(false).build();
        match session {
            Ok(session) => worker::serve(&role, session).await.is_ok(),
            Err(_) => false,
        }
    })
}

pub(super) fn server(settings: &ChildSettings) -> Process {
    let (join, index, generation) = (settings.join.clone(), settings.index, settings.generation);
    start("server", settings, async move {
        let Ok(Some(secret)) = Secret::from_environment() else { return false };
        let config = ServerConfig {
            index: Some(index),
            generation: u32::try_from(generation).unwrap_or(u32::MAX),
            explicit_secret: true,
            ..ServerConfig::new(join, secret, MEMORY)
        };
        server::run(config).await.is_ok()
    })
}

fn start(name: &str, settings: &ChildSettings, main: impl Future<Output = bool> + Send + 'static) -> Process {
    let Some(driver) = simulation::current() else { panic!("only within a simulation") };
    let world = driver.world();
    let environment = vec![("STRADSAP_SECRET".to_string(), settings.secret.clone())];
    let process = world.process(name, environment);
    let starting = Duration::from_millis(world.random(|random| random.of(1..=STARTING)));
    let own = Arc::clone(&process);
    process.spawn(world.handle(), async move {
        tokio::time::sleep(starting).await;
        let well = main.await;
        own.end(End::Code(if well { 0 } else { 1 }), false);
    });
    Process(process)
}

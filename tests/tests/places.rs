//! Where loops can run, and scenarios at every such place against one of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use stradsap::prelude::*;
use stradsap::{ClusterOptions, Homes};

use crate::common::mix;
use crate::jobs::processes::{children_as, runs, signal_to, wait_for};
use crate::jobs::runner::{Test, long};
use crate::seen::{Alone, Scenario, Seen};

/// Where loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// 0: in this process.
    pub(crate) workers: usize,
    pub(crate) threads: usize,
    pub(crate) servers: usize,
    /// Whether each process has so little memory that all that can leave it does, again and again.
    pub(crate) spilled: bool,
    /// Whether elements are with the servers between calls.
    pub(crate) at_servers: bool,
}

pub(crate) const fn place(workers: usize, threads: usize, servers: usize) -> Place {
    Place { workers, threads, servers, spilled: false, at_servers: false }
}

/// Elements are with two servers between calls.
pub(crate) const fn at_servers(workers: usize, threads: usize) -> Place {
    Place { at_servers: true, ..place(workers, threads, 2) }
}

/// The limit of each process of a place with little memory.
const LITTLE: u64 = 1 << 20;

/// A folder on the disk that the tests are built on: that of temporary files may lie in memory.
pub(crate) fn on_the_disk() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

/// One thread of this process.
pub(crate) const ALONE: Place = place(0, 1, 0);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place { workers: 0, threads, .. } => write!(f, "in process x {threads}"),
            Place { workers, threads, servers: 0, .. } => write!(f, "{workers} workers x {threads}"),
            Place { workers, threads, servers, .. } => write!(f, "{workers} workers x {threads}, {servers} servers"),
        }?;
        f.write_str(if self.at_servers { ", elements at servers" } else { "" })?;
        f.write_str(if self.spilled { ", with little memory" } else { "" })
    }
}

impl Place {
    /// The same with little memory.
    pub(crate) const fn spilled(self) -> Place {
        Place { spilled: true, ..self }
    }

    /// A session there.
    pub(crate) fn session(self) -> Session {
        self.start(false)
    }

    /// One in which loops are checked: replayed if that gives the same bits, else read by read.
    pub(crate) fn verified(self) -> Session {
        self.start(true)
    }

    fn start(self, verify: bool) -> Session {
        let session = Session::builder().threads(self.threads).verify(verify).explain(false).build().unwrap();
        let limit = || session.set_memory(LITTLE, on_the_disk()).unwrap_or_else(|error| panic!("{self}: {error}"));
        // Workers may be there, or not yet.
        if self.spilled && self.threads == 1 {
            limit();
        }
        if self.workers > 0 {
            // A snapshot now and then is part of the ordinary run.
            let options = ClusterOptions::new(self.workers).threads(self.threads).dds_servers(self.servers);
            // With three workers the driver keeps nothing that others can store.
            let options = if self.workers == 3 { options.driver_memory(0) } else { options };
            let options = if self.at_servers { options.homes(Homes::Servers) } else { options };
            session.start_workers(&options.snapshot_every(3)).unwrap_or_else(|error| panic!("{self}: {error}"));
        }
        if self.spilled && self.threads > 1 {
            limit();
        }
        session
    }
}

/// Each second one of these places; all of them in the long mode. (Each comes with every scenario, and two cores have half an hour.)
pub(crate) fn each_second(places: &[Place]) -> Vec<Place> {
    if long() { places.to_vec() } else { places.iter().skip(1).step_by(2).copied().collect() }
}

/// What a scenario sees on a session.
pub(crate) fn look(session: &Session, scenario: &Scenario) -> Seen {
    let mut seen = Seen::default();
    (scenario.run)(session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert!(!seen.0.is_empty(), "{} sees nothing", scenario.name);
    seen
}

/// What scenarios must see: what they see at one place, each run there once.
#[derive(Clone)]
pub(crate) struct Expected {
    place: Place,
    session: fn(Place) -> Session,
    seen: Rc<RefCell<BTreeMap<&'static str, Seen>>>,
}

impl Expected {
    pub(crate) fn new(place: Place, session: fn(Place) -> Session) -> Expected {
        Expected { place, session, seen: Rc::default() }
    }

    pub(crate) fn check(&self, scenario: &Scenario, found: &Seen) {
        let mut all = self.seen.borrow_mut();
        let expected = all.entry(scenario.name).or_insert_with(|| look(&(self.session)(self.place), scenario));
        for (k, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
            assert_eq!(found, expected, "line {k}");
        }
        assert_eq!(found.0.len(), expected.0.len());
    }
}

/// A test of each scenario at each place, none of which may take longer than this many seconds.
pub(crate) fn tests(places: &[Place], expected: &Expected, seconds: u64, scenarios: &'static [Scenario]) -> Vec<Test> {
    let mut tests = Vec::new();
    for &place in places {
        // The scenarios of a place share a session, which ends with the last of them.
        let session: Rc<RefCell<Option<Session>>> = Rc::default();
        for scenario in scenarios {
            let (session, expected) = (Rc::clone(&session), expected.clone());
            tests.push(Test::new(format!("{}: {place}", scenario.name), seconds, move || {
                // One that fails takes the session with it: the next begins anew.
                let own = session.borrow_mut().take().unwrap_or_else(|| (expected.session)(place));
                let found = look(&own, scenario);
                *session.borrow_mut() = Some(own);
                expected.check(scenario, &found);
            }));
        }
    }
    tests
}

/// The tests that need no workers.
pub(crate) fn alone(seconds: u64, tests: &'static [Alone]) -> Vec<Test> {
    tests.iter().map(|&(name, body)| Test::new(name, seconds, body)).collect()
}

/// A test of each scenario at a place where one of the workers is killed meanwhile.
pub(crate) fn killed(place: Place, expected: &Expected, seconds: u64, scenarios: &'static [Scenario]) -> Vec<Test> {
    killed_as("worker", place, expected, seconds, scenarios)
}

/// The same with one of the processes that play this role.
pub(crate) fn killed_as(
    role: &'static str,
    place: Place,
    expected: &Expected,
    seconds: u64,
    scenarios: &'static [Scenario],
) -> Vec<Test> {
    let test = |scenario: &'static Scenario| {
        let expected = expected.clone();
        let name =
            format!("{}: {place}, one {}is killed", scenario.name, if role == "worker" { "" } else { "server " });
        Test::new(name, seconds, move || {
            let session = (expected.session)(place);
            let all = children_as(std::process::id(), role);
            assert_eq!(all.len(), if role == "worker" { place.workers } else { place.servers });
            // Each at another moment.
            let random = scenario.name.bytes().fold(7, |hash, byte| mix(hash ^ u64::from(byte)));
            let victim = all[random as usize % all.len()];
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(random / 64 % 20));
                signal_to(victim, "KILL");
            });
            let found = look(&session, scenario);
            killer.join().unwrap();
            wait_for("the killed process's end", Duration::from_secs(5), || (!runs(victim)).then_some(()));
            expected.check(scenario, &found);
        })
    };
    scenarios.iter().map(test).collect()
}

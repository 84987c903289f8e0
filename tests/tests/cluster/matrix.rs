//! Every scenario wherever loops can run, against the process that runs them alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::jobs::processes::{Process, a_secret, free_port, this_program};
use super::jobs::runner::{Test, wanted};
use super::seen::{Scenario, Seen};

/// Where loops run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// 0: in this process.
    pub(crate) workers: usize,
    pub(crate) threads: usize,
    pub(crate) servers: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place { workers: 0, threads, .. } => write!(f, "in process x {threads}"),
            Place { workers, threads, servers: 0 } => write!(f, "{workers} workers x {threads}"),
            Place { workers, threads, servers } => write!(f, "{workers} workers x {threads}, {servers} servers"),
        }
    }
}

impl Place {
    pub(crate) fn session(self) -> stradsap::Result<Session> {
        let session = Session::builder().threads(self.threads).verify(false).explain(false).build()?;
        if self.workers > 0 {
            // A snapshot now and then is part of the ordinary run.
            let options = ClusterOptions::new(self.workers).threads(self.threads).dds_servers(self.servers);
            session.start_workers(&options.snapshot_every(3))?;
        }
        Ok(session)
    }
}

pub(crate) const ALONE: Place = Place { workers: 0, threads: 1, servers: 0 };

fn places() -> Vec<Place> {
    let mut places = vec![Place { threads: 2, ..ALONE }];
    for servers in [0, 2] {
        for workers in 1..=4 {
            for threads in 1..=2 {
                places.push(Place { workers, threads, servers });
            }
        }
    }
    places
}

/// What a scenario sees on a session, or how it failed.
pub(crate) fn look(session: &Session, scenario: &Scenario) -> Seen {
    let mut seen = Seen::default();
    (scenario.run)(session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    seen
}

/// What scenarios see in this process, each run once.
#[derive(Clone, Default)]
struct Expected(Rc<RefCell<BTreeMap<&'static str, Seen>>>);

impl Expected {
    fn of(&self, scenario: &Scenario) -> Seen {
        if let Some(seen) = self.0.borrow().get(scenario.name) {
            return seen.clone();
        }
        let seen = look(&ALONE.session().unwrap(), scenario);
        assert!(!seen.0.is_empty(), "{} sees nothing", scenario.name);
        self.0.borrow_mut().insert(scenario.name, seen.clone());
        seen
    }
}

fn compare(found: &Seen, expected: &Seen) {
    for (k, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
        assert_eq!(found, expected, "line {k}");
    }
    assert_eq!(found.0.len(), expected.0.len());
}

pub(crate) fn tests(scenarios: &'static [Scenario]) -> Vec<Test> {
    let expected = Expected::default();
    let mut tests = Vec::new();
    for place in places() {
        // The scenarios of a place share a session, which ends with the last of them.
        let session: Rc<RefCell<Option<Session>>> = Rc::default();
        for scenario in scenarios {
            let (session, expected) = (Rc::clone(&session), expected.clone());
            tests.push(Test::new(format!("{}: {place}", scenario.name), 60, move || {
                let expected = expected.of(scenario);
                let mut shared = session.borrow_mut();
                if shared.is_none() {
                    *shared = Some(place.session().unwrap_or_else(|error| panic!("{place}: {error}")));
                }
                let own = shared.take().unwrap();
                match catch_unwind(AssertUnwindSafe(|| look(&own, scenario))) {
                    Ok(seen) => {
                        *shared = Some(own);
                        compare(&seen, &expected);
                    }
                    // The next one begins anew.
                    Err(panic) => resume_unwind(panic),
                }
            }));
        }
    }
    tests.extend(on_hosts(scenarios, &expected));
    tests
}

/// What each scenario saw.
type ByScenario = BTreeMap<String, Vec<String>>;

/// What a scenario saw, on standard output.
const LINE: &str = "seen ";

/// Workers on hosts of their own, as far as one machine has them: 127.0.0.2 and so on.
fn on_hosts(scenarios: &'static [Scenario], expected: &Expected) -> Vec<Test> {
    let all: Rc<RefCell<Option<ByScenario>>> = Rc::default();
    let name = |scenario: &Scenario| format!("{}: 3 hosts", scenario.name);
    let chosen: Vec<&str> = scenarios.iter().filter(|one| wanted(&name(one))).map(|one| one.name).collect();
    let chosen = chosen.join(",");
    let test = |scenario: &'static Scenario| {
        let (all, expected, chosen) = (Rc::clone(&all), expected.clone(), chosen.clone());
        Test::new(name(scenario), 90, move || {
            let mut all = all.borrow_mut();
            let all = all.get_or_insert_with(|| on_three_hosts(&chosen));
            let found = all.get(scenario.name).unwrap_or_else(|| panic!("{} did not end well", scenario.name));
            compare(&Seen(found.clone()), &expected.of(scenario));
        })
    };
    scenarios.iter().map(test).collect()
}

fn on_three_hosts(chosen: &str) -> ByScenario {
    let driver_host = "127.0.0.9";
    let at = format!("{driver_host}:{}", free_port(driver_host));
    let secret = a_secret(9);
    let mut command = this_program();
    command.env("STRADSAP_TEST_SCENARIOS", chosen).env("STRADSAP_SECRET", &secret);
    let mut driver = Process::start(command.env("STRADSAP_WORKERS", "3").env("STRADSAP_LISTEN", &at));
    let mut workers: Vec<Process> = (2..5)
        .map(|host| {
            let mut command = this_program();
            command.args(["--join", &at, "--threads", "1"]).env("STRADSAP_SECRET", &secret);
            Process::start(command.env("STRADSAP_BIND", format!("127.0.0.{host}")))
        })
        .collect();
    let status = driver.wait("the driver on a host of its own", Duration::from_secs(60));
    for worker in &mut workers {
        let ended = worker.wait("a worker whose driver has ended", Duration::from_secs(5));
        assert!(ended.success(), "a worker: {ended}\n{}", worker.err());
    }
    let mut all = ByScenario::new();
    for line in driver.out().lines().filter_map(|line| line.strip_prefix(LINE)) {
        let (scenario, line) = line.split_once('\t').unwrap_or((line, ""));
        all.entry(scenario.to_string()).or_default().push(line.to_string());
    }
    assert!(status.success(), "the driver: {status}\n{}", driver.err());
    all
}

/// The driver's part of that, in a process of its own.
#[allow(clippy::print_stdout)]
pub(crate) fn print_all(session: &Session, scenarios: &[Scenario], chosen: &str) {
    for scenario in scenarios.iter().filter(|scenario| chosen.split(',').any(|name| name == scenario.name)) {
        for line in look(session, scenario).0 {
            println!("{LINE}{}\t{line}", scenario.name);
        }
    }
}

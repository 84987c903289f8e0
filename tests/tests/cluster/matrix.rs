//! Every scenario wherever loops can run, against the process that runs them alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use stradsap::prelude::*;

use crate::jobs::processes::{Process, a_secret, free_port, this_program};
use crate::jobs::runner::{Test, wanted};
use crate::places::{self, ALONE, Expected, Place, look, place};
use crate::seen::{Scenario, Seen};

fn everywhere() -> Vec<Place> {
    let mut places = vec![Place { threads: 2, ..ALONE }];
    for workers in 1..=4 {
        for threads in 1..=2 {
            places.push(place(workers, threads, 0));
        }
        // Servers store what other workers would; how many threads these have is nothing to them.
        places.push(place(workers, 1 + workers / 2 % 2, 2));
    }
    places
}

pub(crate) fn tests(scenarios: &'static [Scenario]) -> Vec<Test> {
    let expected = Expected::new(ALONE, Place::session);
    let mut tests = places::tests(&places::each_second(&everywhere()), &expected, 60, scenarios);
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
    let chosen: Vec<&str> =
        scenarios.iter().filter(|one| wanted(super::GROUP, &name(one))).map(|one| one.name).collect();
    let chosen = chosen.join(",");
    let test = |scenario: &'static Scenario| {
        let (all, expected, chosen) = (Rc::clone(&all), expected.clone(), chosen.clone());
        Test::new(name(scenario), 90, move || {
            let mut all = all.borrow_mut();
            let all = all.get_or_insert_with(|| on_three_hosts(&chosen));
            let found = all.get(scenario.name).unwrap_or_else(|| panic!("{} did not end well", scenario.name));
            expected.check(scenario, &Seen(found.clone()));
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

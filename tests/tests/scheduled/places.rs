//! Every scenario at every place, against the process with one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::jobs::runner::Test;
use super::seen::{Scenario, Seen};

/// Where programs run: 0 workers are this process.
#[derive(Clone, Copy)]
struct Place {
    workers: usize,
    threads: usize,
    servers: usize,
}

const fn place(workers: usize, threads: usize, servers: usize) -> Place {
    Place { workers, threads, servers }
}

const PLACES: [Place; 10] = [
    place(0, 1, 0),
    place(0, 2, 0),
    place(0, 3, 0),
    place(0, 4, 0),
    place(1, 1, 0),
    place(1, 2, 0),
    place(2, 1, 2),
    place(2, 2, 0),
    place(3, 1, 0),
    place(4, 2, 0),
];

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
    fn session(self) -> Session {
        let session =
            Session::builder().threads(self.threads).verify(self.threads == 2).explain(false).build().unwrap();
        if self.workers > 0 {
            // A snapshot now and then is part of the ordinary run.
            let options = ClusterOptions::new(self.workers).threads(self.threads).dds_servers(self.servers);
            session.start_workers(&options.snapshot_every(3)).unwrap_or_else(|error| panic!("{self}: {error}"));
        }
        session
    }
}

fn look(session: &Session, scenario: &Scenario) -> Seen {
    let mut seen = Seen::default();
    (scenario.run)(session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert!(!seen.0.is_empty(), "{} sees nothing", scenario.name);
    seen
}

pub(crate) fn tests(scenarios: &'static [Scenario]) -> Vec<Test> {
    let expected: Rc<RefCell<BTreeMap<&str, Seen>>> = Rc::default();
    let mut tests = Vec::new();
    for place in PLACES {
        // The scenarios of a place share a session, which ends with the last of them.
        let session: Rc<RefCell<Option<Session>>> = Rc::default();
        for scenario in scenarios {
            let (session, expected) = (Rc::clone(&session), Rc::clone(&expected));
            tests.push(Test::new(format!("{}: {place}", scenario.name), 60, move || {
                let here = |_: &str| look(&PLACES[0].session(), scenario);
                let expected = expected.borrow_mut().entry(scenario.name).or_insert_with_key(|name| here(name)).clone();
                let own = session.borrow_mut().take().unwrap_or_else(|| place.session());
                let found = look(&own, scenario);
                *session.borrow_mut() = Some(own);
                for (k, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
                    assert_eq!(found, expected, "line {k}");
                }
                assert_eq!(found.0.len(), expected.0.len());
            }));
        }
    }
    tests
}

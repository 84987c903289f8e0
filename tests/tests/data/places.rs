//! Every scenario wherever data can be, against the process that has them alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::jobs::runner::Test;
use super::seen::{Scenario, Seen};

/// Where loops and operators run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    /// 0: in this process.
    workers: usize,
    threads: usize,
    servers: usize,
}

const fn place(workers: usize, threads: usize, servers: usize) -> Place {
    Place { workers, threads, servers }
}

/// The first one is what the others are compared with.
const PLACES: [Place; 6] =
    [place(0, 1, 0), place(0, 2, 0), place(0, 3, 0), place(1, 1, 0), place(2, 2, 0), place(3, 1, 2)];

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
        // Loops are replayed in their serial order and compared, but where scenarios do that themselves.
        let session = Session::builder().threads(self.threads).verify(true).explain(false).build().unwrap();
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
            let limit = if super::runner::long() { 7200 } else { 120 };
            tests.push(Test::new(format!("{}: {place}", scenario.name), limit, move || {
                // One that fails takes the session with it: the next begins anew.
                let own = session.borrow_mut().take().unwrap_or_else(|| place.session());
                let found = look(&own, scenario);
                *session.borrow_mut() = Some(own);
                let mut expected = expected.borrow_mut();
                if place == PLACES[0] {
                    expected.insert(scenario.name, found);
                    return;
                }
                let expected = expected.entry(scenario.name).or_insert_with(|| look(&PLACES[0].session(), scenario));
                for (k, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
                    assert_eq!(found, expected, "line {k}");
                }
                assert_eq!(found.0.len(), expected.0.len());
            }));
        }
    }
    tests
}

//! Every scenario wherever so many copies can be, against the process that has them as threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use super::jobs::runner::Test;
use super::seen::{Scenario, Seen};

/// Where loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// 0: in this process.
    pub(crate) workers: usize,
    pub(crate) threads: usize,
    pub(crate) servers: usize,
}

const fn place(workers: usize, threads: usize, servers: usize) -> Place {
    Place { workers, threads, servers }
}

/// By the number of copies. The first of each has them as threads of this process.
pub(crate) const PLACES: [&[Place]; 4] = [
    &[place(0, 1, 0), place(1, 1, 0)],
    &[place(0, 2, 0), place(1, 2, 0), place(2, 1, 0)],
    &[place(0, 3, 0), place(1, 3, 0), place(3, 1, 2)],
    &[place(0, 4, 0), place(1, 4, 0), place(2, 2, 2), place(4, 1, 0)],
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
    /// A session there, in which loops are checked: replayed if that gives the same bits, else read by read.
    pub(crate) fn session(self) -> Session {
        let session = Session::builder().threads(self.threads).verify(true).explain(false).build().unwrap();
        if self.workers > 0 {
            // A snapshot now and then is part of the ordinary run.
            let options = ClusterOptions::new(self.workers).threads(self.threads).dds_servers(self.servers);
            session.start_workers(&options.snapshot_every(3)).unwrap_or_else(|error| panic!("{self}: {error}"));
        }
        session
    }
}

/// How many copies the loops of a session have, but for those under `Hybrid`.
pub(crate) fn copies(session: &Session) -> usize {
    session.workers().max(1) * session.threads()
}

/// Policies whose results hang on the number of copies alone. `Hybrid` is `Bsp` where each process has one thread.
pub(crate) fn policies(session: &Session) -> Vec<(&'static str, SyncPolicy)> {
    let one_each = session.workers() > 0 && session.threads() == 1;
    let mut policies = vec![
        ("rounds", SyncPolicy::Bsp),
        ("rounds of processes", if one_each { SyncPolicy::Hybrid } else { SyncPolicy::Bsp }),
        ("averages", SyncPolicy::ModelAverage { every: 2 }),
    ];
    if copies(session) == 1 {
        policies.push(("alone", SyncPolicy::Hybrid));
        policies.push(("alone, bounded", SyncPolicy::Ssp { staleness: 2 }));
    }
    policies
}

/// What of a report must be the same everywhere.
pub(crate) fn note(seen: &mut Seen, what: &str, report: &SyncReport) {
    seen.note(what, (report.minibatches(), report.copies(), report.rounds()));
}

fn look(session: &Session, scenario: &Scenario) -> Seen {
    let mut seen = Seen::default();
    (scenario.run)(session, &mut seen).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert!(!seen.0.is_empty(), "{} sees nothing", scenario.name);
    seen
}

pub(crate) fn tests(scenarios: &'static [Scenario]) -> Vec<Test> {
    let mut tests = Vec::new();
    for places in PLACES {
        let expected: Rc<RefCell<BTreeMap<&str, Seen>>> = Rc::default();
        for &place in places {
            // The scenarios of a place share a session, which ends with the last of them.
            let session: Rc<RefCell<Option<Session>>> = Rc::default();
            for scenario in scenarios {
                let (session, expected) = (Rc::clone(&session), Rc::clone(&expected));
                tests.push(Test::new(format!("{}: {place}", scenario.name), 60, move || {
                    let here = |_: &str| look(&places[0].session(), scenario);
                    let expected =
                        expected.borrow_mut().entry(scenario.name).or_insert_with_key(|name| here(name)).clone();
                    // One that fails takes the session with it: the next begins anew.
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
    }
    tests
}

//! Every scenario wherever this many copies can be, against the process that has them as threads.

use stradsap::prelude::*;

use crate::jobs::runner::Test;
use crate::places::{self, Expected, Place, place};
use crate::seen::{Scenario, Seen};

/// By the number of copies. The first of each has them as threads of this process.
pub(crate) const PLACES: [&[Place]; 4] = [
    &[place(0, 1, 0), place(1, 1, 0)],
    &[place(0, 2, 0), place(1, 2, 0), place(2, 1, 0)],
    &[place(0, 3, 0), place(3, 1, 2)],
    &[place(0, 4, 0), place(1, 4, 0), place(2, 2, 2), place(4, 1, 0)],
];

/// How many copies the loops of a session have, but for those under `Hybrid`.
pub(crate) fn copies(session: &Session) -> usize {
    session.workers().max(1) * session.threads()
}

/// Policies whose results depend on the number of copies alone. `Hybrid` is `Bsp` where each process has one thread.
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
    seen.record(what, (report.minibatches(), report.copies(), report.rounds()));
}

pub(crate) fn tests(scenarios: &'static [Scenario]) -> Vec<Test> {
    let among = |places: &&[Place]| places::tests(places, &Expected::new(places[0], Place::verified), 60, scenarios);
    PLACES.iter().flat_map(among).collect()
}

//! Data that workers read (or make: see `generated`): the same elements in the same order as in one process, the same errors, and the same again after a loss.

mod files;
mod losses;
pub(crate) mod memory;
pub(crate) mod saved;
mod trained;

use crate::jobs::runner::Test;
use crate::places::{self, ALONE, Expected, Place, place};
use crate::scenarios;
use crate::seen::Scenario;

const SCENARIOS: &[Scenario] = scenarios![
    files::tables,
    files::quoted,
    files::short,
    files::several,
    files::graphs,
    files::texts,
    files::bags,
    files::examples,
    files::arrays,
    files::packed,
    files::bad_lines,
    files::bad_files,
    trained::factorised,
    trained::counted,
    trained::stored,
    trained::beside,
    trained::written,
    saved::saved,
    saved::damaged,
    saved::failed,
];

/// One worker and several, with one thread and with two; with three workers elements also go to servers. Each second one has threads,
/// servers, and several workers.
const PLACES: [Place; 6] = [ALONE, place(0, 3, 0), place(1, 2, 0), place(3, 1, 2), place(2, 1, 0), place(4, 2, 0)];

pub(crate) fn tests() -> Vec<Test> {
    let expected = Expected::new(ALONE, Place::session);
    let mut tests = places::tests(&places::each_second(&PLACES), &expected, 120, SCENARIOS);
    tests.extend(places::killed(place(3, 1, 0), &expected, 120, SCENARIOS));
    tests.extend(losses::tests());
    tests.extend(saved::tests());
    tests.extend(memory::tests());
    tests
}

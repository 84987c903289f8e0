//! What a scenario saw: the same in one process and on any number of workers.

use std::fmt::Debug;

use stradsap::Element;
use stradsap::prelude::*;

/// Lines that must not depend on where loops ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen(pub(crate) Vec<String>);

impl Seen {
    pub(crate) fn record(&mut self, what: &str, value: impl Debug) {
        // One line each, as they may travel on one.
        self.0.push(format!("{what}: {value:?}").replace('\n', " "));
    }

    /// All elements of a DVector.
    pub(crate) fn digest<T: Element>(&mut self, what: &str, x: &DVector<T>) -> stradsap::Result<()> {
        let digest = x.digest()?;
        self.record(what, digest);
        Ok(())
    }

    /// What of a report must be the same everywhere.
    pub(crate) fn report(&mut self, what: &str, report: &LoopReport) {
        let order = report.serial_order().fold(7u64, |hash, i| crate::common::mix(hash ^ i as u64));
        self.record(
            what,
            (
                report.strategy(),
                report.reused(),
                report.misspeculations(),
                // Where nothing conflicts, a clock may decide how many there are.
                (report.strategy() != Strategy::Aligned).then(|| (report.blocks(), report.work())),
                report.inferred(),
                report.reason(),
                order,
            ),
        );
    }
}

/// One body for all places where loops may run.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Session, &mut Seen) -> stradsap::Result<()>,
}

/// The scenarios of these functions, named as they are.
#[macro_export]
macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$($crate::seen::Scenario { name: stringify!($name), run: $module::$name }),*]
    };
}

// Not every executable that shares this has such tests.
#[allow(dead_code)]
/// A test that needs no workers, and its name.
pub(crate) type Alone = (&'static str, fn());

/// [`Alone`] tests by the names of their functions.
#[macro_export]
macro_rules! alone {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), $name as fn())),*]
    };
}

// Not every executable that shares this asks for it.
#[allow(dead_code)]
/// An error's message names the worker where there are workers; it is taken out, as it is another each time.
pub(crate) fn without_worker(session: &Session, text: &str) -> String {
    let Some(at) = text.find("worker ") else {
        assert_eq!(session.workers(), 0, "no worker is named: {text}");
        return text.to_string();
    };
    assert!(session.workers() > 0, "{text}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert!(text[at..].contains(&format!("(host {}, pid ", host.trim())), "{text}");
    let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
    // "(worker ...)" after an error, "place; worker ..." after a panic.
    let (before, after) = (&text[..at], &text[end..]);
    match before.strip_suffix(" (") {
        Some(before) => format!("{before}{}", after.strip_prefix(')').unwrap_or(after)),
        None => format!("{}{after}", before.trim_end_matches("; ")),
    }
}

//! What reports and advice say about each of the programs.

use crate::programs::{ANY, PROGRAMS, Trial};
use crate::seen::{Alone, Seen};

pub(crate) const ALONE: &[Alone] = crate::alone![reports_and_advice_are_true];

fn reports_and_advice_are_true() {
    let session = crate::common::session(2);
    let mut wrong = Vec::new();
    for program in PROGRAMS {
        let report = (program.run)(&session, &mut Seen::default(), &mut Trial::default()).unwrap();
        let (least, below) = program.parallelism;
        let advice = report.advice();
        let as_said = match (program.advice, &advice) {
            // On a slow machine the clock has other advice.
            (Some(part), Some(advice)) => advice.contains(part) || advice.contains("more than its accesses let expect"),
            (None, _) => report.parallelism() >= 2.0 || advice.is_some(),
            // (How long iterations take decides how many blocks there are, on slow machines more, on fast ones perhaps one.)
            (Some(_), None) => below == ANY && report.parallelism() >= 2.0,
        };
        let parallel = (least..below).contains(&report.parallelism());
        if !as_said || !parallel || program.strategy.is_some_and(|strategy| report.strategy() != strategy) {
            wrong.push(format!("{}: {report}", program.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

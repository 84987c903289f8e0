//! What came out: a row of the table for each contestant, and for each thing that stradsap promises about its speed
//! a line that says what it reached.

use crate::data::RatingSet;
use crate::harness::Samples;
use crate::peers::{COPIES, Preparation, STRADSAP, TWIN};
use crate::table::Table;

/// The columns of the table.
pub const HEADING: [&str; 14] = [
    "set",
    "rank",
    "contestant",
    "threads",
    "s/epoch",
    "min",
    "max",
    "M ratings/s",
    "x twin",
    "test RMSE",
    "record s",
    "plan s",
    "in epochs",
    "first call s",
];

/// What was measured of one contestant.
pub struct Measured {
    /// Its name.
    pub name: &'static str,
    /// How many threads it ran on.
    pub threads: usize,
    /// How many times it goes through the ratings in an epoch.
    pub passes: usize,
    /// Seconds an epoch.
    pub epoch: Samples,
    /// What its first epoch costs beyond the pass.
    pub preparation: Option<Preparation>,
    /// How many plans it made in all epochs that were timed.
    pub plans: Option<usize>,
    /// How well it trains, when that was asked for.
    pub quality: Option<Quality>,
}

/// The outcome of training from the initial factors for some epochs.
#[derive(Clone, Copy)]
pub struct Quality {
    /// Root mean squared error on the test ratings.
    pub rmse: f64,
    /// A hash of the factors.
    pub fingerprint: u64,
}

/// All contestants on one set at one rank.
pub struct Comparison<'a> {
    /// The set.
    pub set: &'a RatingSet,
    /// The rank.
    pub rank: usize,
    /// Contestants in the order in which they took turns.
    pub measured: Vec<Measured>,
}

impl Measured {
    fn ratings_per_second(&self, set: &RatingSet) -> f64 {
        (self.passes * set.train.len()) as f64 / self.epoch.median()
    }

    /// Recording and planning, in epochs on the same threads.
    fn preparation_epochs(&self) -> Option<f64> {
        self.preparation.map(|p| (p.recording + p.planning) / self.epoch.median())
    }
}

impl Comparison<'_> {
    /// The rows of the table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&HEADING);
        for m in &self.measured {
            let or_empty = |value: Option<f64>, digits: usize| value.map_or(String::new(), |x| format!("{x:.digits$}"));
            table.push(vec![
                self.set.name.to_owned(),
                self.rank.to_string(),
                m.name.to_owned(),
                m.threads.to_string(),
                format!("{:.5}", m.epoch.median()),
                format!("{:.5}", m.epoch.min()),
                format!("{:.5}", m.epoch.max()),
                format!("{:.1}", m.ratings_per_second(self.set) / 1e6),
                or_empty(self.speed_up(m, TWIN, 1), 2),
                or_empty(m.quality.map(|quality| quality.rmse), 4),
                or_empty(m.preparation.map(|p| p.recording), 4),
                or_empty(m.preparation.map(|p| p.planning), 4),
                or_empty(m.preparation_epochs(), 2),
                or_empty(m.preparation.map(|p| p.first_call), 4),
            ]);
        }
        table
    }

    fn find(&self, name: &str, threads: usize) -> Option<&Measured> {
        self.measured.iter().find(|m| m.name == name && m.threads == threads)
    }

    /// Ratings a second against another contestant's.
    fn speed_up(&self, m: &Measured, name: &str, threads: usize) -> Option<f64> {
        let other = self.find(name, threads)?;
        Some(m.ratings_per_second(self.set) / other.ratings_per_second(self.set))
    }

    /// A line for each promise; `twin_bar` is how many times as fast as the twin one thread should be.
    pub fn answers(&self, twin_bar: f64, epochs: usize) -> Vec<String> {
        let mut lines = vec![format!("{}, rank {}", self.set.name, self.rank)];
        let Some(one) = self.find(STRADSAP, 1) else { return lines };
        if let Some(ratio) = self.speed_up(one, TWIN, 1) {
            lines.push(answer(
                ratio >= twin_bar,
                &format!("1 thread is {ratio:.2} times as fast as the twin; should be {twin_bar}"),
            ));
        }
        for m in self.measured.iter().filter(|m| m.name == STRADSAP) {
            let threads = threads(m.threads);
            if m.threads > 1
                && let Some(ratio) = self.speed_up(m, STRADSAP, 1)
            {
                let bar = 0.85 * m.threads as f64;
                let limit = self.find(COPIES, m.threads).and_then(|copies| self.speed_up(copies, TWIN, 1));
                let limit =
                    limit.map_or(String::new(), |x| format!("; as many copies of the twin together reach {x:.2}"));
                lines.push(answer(
                    ratio >= bar,
                    &format!("{threads} are {ratio:.2} times as fast as 1; should be {bar:.2}{limit}"),
                ));
            }
            if let Some(plans) = m.plans {
                lines.push(answer(plans == 1, &format!("{threads}: plans made: {plans}; should be 1 for all epochs")));
            }
            if let (Some(cost), Some(first)) = (m.preparation_epochs(), m.preparation.map(|p| p.first_call)) {
                let text = format!(
                    "{threads}: recording and planning take {cost:.2} epochs; at most 2; the first call takes {:.2}",
                    first / m.epoch.median()
                );
                lines.push(answer(cost <= 2.0, &text));
            }
            if let (Some(ours), Some(twins)) = (m.quality, self.find(TWIN, 1).and_then(|twin| twin.quality)) {
                let percent = 100.0 * (ours.rmse / twins.rmse - 1.0);
                let text = format!(
                    "{threads}: test RMSE after {epochs} epochs {:.4}, the twin's {:.4}: {percent:+.2} %; within 0.5 %",
                    ours.rmse, twins.rmse
                );
                lines.push(answer(percent <= 0.5, &text));
            }
            if m.threads > 1
                && let (Some(a), Some(b)) = (m.quality, one.quality)
            {
                lines.push(answer(a.fingerprint == b.fingerprint, &format!("{threads} and 1 train the same bits")));
            }
        }
        lines
    }
}

fn threads(n: usize) -> String {
    if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") }
}

/// A line that says what was promised and whether it was reached.
pub fn answer(reached: bool, text: &str) -> String {
    format!("  {}  {text}", if reached { "yes" } else { "NO " })
}

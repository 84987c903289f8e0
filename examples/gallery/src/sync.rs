//! The options of programs with synchronous loops.

use std::num::NonZeroUsize;

use stradsap::{MergeRule, Session, SyncPolicy};
use stradsap_examples::numbers::nonzero;

/// How copies of the model are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sync {
    /// All copies' changes are added up when each has run one minibatch
    Bsp,
    /// Copies may be ahead of each other, by --staleness minibatches at the most
    Ssp,
    /// The threads of a process share one copy without locks
    Hybrid,
    /// Copies are averaged, every --average-every minibatches
    ModelAverage,
}

/// How the changes of copies become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Merge {
    /// They are added up
    Sum,
    /// They are combined row by row: what they have in common counts once
    Combine,
}

/// The options of a synchronous loop.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Synchronous loop")]
pub struct SyncArgs {
    /// How copies of the model are kept together
    #[arg(long, value_enum, default_value_t = Sync::Bsp)]
    pub sync: Sync,

    /// With --sync ssp: minibatches that a copy may be ahead of the slowest
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub staleness: usize,

    /// Elements in a minibatch [default: as the program says]
    #[arg(long, value_name = "M", value_parser = nonzero::<NonZeroUsize>)]
    pub minibatch: Option<NonZeroUsize>,

    /// With --sync model-average: minibatches of each copy between two averages [default: as the program says]
    #[arg(long, value_name = "K", value_parser = nonzero::<NonZeroUsize>)]
    pub average_every: Option<NonZeroUsize>,

    /// On workers: fetch rows of the model only when they are touched, though it is known what a minibatch touches
    #[arg(long)]
    pub no_prefetch: bool,

    /// On workers: how much of what minibatches touch is there before they begin; the rest comes while they run
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = percent)]
    pub early: usize,

    /// With --sync hybrid: how many of the rows that are used most a thread has copies of [default: 512]
    #[arg(long, value_name = "ROWS")]
    pub caches: Option<usize>,
}

fn percent(written: &str) -> Result<usize, String> {
    let number = written.parse().ok().filter(|&number| number <= 100);
    number.ok_or_else(|| "expected a whole number from 0 to 100".to_string())
}

impl SyncArgs {
    /// How many of the hottest rows a thread has copies of.
    pub fn caches(&self) -> usize {
        self.caches.unwrap_or(usize::MAX)
    }

    /// The policy of a loop, whose copies are averaged every `average_every` minibatches of each where the command line
    /// doesn't say how often.
    pub fn policy(&self, average_every: usize) -> SyncPolicy {
        match self.sync {
            Sync::Bsp => SyncPolicy::Bsp,
            Sync::Ssp => SyncPolicy::Ssp { staleness: self.staleness },
            Sync::Hybrid => SyncPolicy::Hybrid,
            Sync::ModelAverage => {
                SyncPolicy::ModelAverage { every: self.average_every.map_or(average_every.max(1), NonZeroUsize::get) }
            }
        }
    }
}

/// How copies that meet are united.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Synchronous loop")]
pub struct MergeArgs {
    /// With --sync bsp, and with hybrid between processes: how changes of copies become one [default: as the program says]
    #[arg(long, value_enum)]
    pub merge: Option<Merge>,

    /// With --sync bsp, and with hybrid between processes: minibatches of each thread between two meetings of the copies [default:
    /// 1]
    #[arg(long, value_name = "N", value_parser = nonzero::<NonZeroUsize>)]
    pub interval: Option<NonZeroUsize>,
}

impl MergeArgs {
    /// How changes become one, `rule` where the command line doesn't say. Policies with a rule of their own get none.
    pub fn rule(&self, sync: Sync, rule: MergeRule) -> MergeRule {
        match (sync, self.merge) {
            (Sync::Ssp | Sync::ModelAverage, None) => MergeRule::Sum,
            (_, None) => rule,
            (_, Some(Merge::Sum)) => MergeRule::Sum,
            (_, Some(Merge::Combine)) => MergeRule::Combine,
        }
    }

    /// Minibatches of each thread between two meetings: 1 where the command line doesn't say.
    pub fn interval(&self) -> usize {
        self.interval.map_or(1, NonZeroUsize::get)
    }
}

/// How many copies a loop has: one a thread, under `Hybrid` one a process.
pub fn copies(session: &Session, policy: SyncPolicy) -> usize {
    if policy == SyncPolicy::Hybrid { session.workers().max(1) } else { threads(session) }
}

/// The threads of all processes: as many copies as there are, but under `Hybrid`.
pub fn threads(session: &Session) -> usize {
    session.threads() * session.workers().max(1)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        sync: SyncArgs,
        #[command(flatten)]
        merge: MergeArgs,
    }

    fn policy(line: &str) -> SyncPolicy {
        Args::try_parse_from(line.split(' ')).unwrap().sync.policy(16)
    }

    #[test]
    fn policies_are_named_as_in_reports() {
        assert_eq!(policy("x"), SyncPolicy::Bsp);
        assert_eq!(policy("x --sync ssp --staleness 3"), SyncPolicy::Ssp { staleness: 3 });
        assert_eq!(policy("x --sync model-average"), SyncPolicy::ModelAverage { every: 16 });
        assert_eq!(policy("x --sync model-average --average-every 2"), SyncPolicy::ModelAverage { every: 2 });
        for name in ["bsp", "ssp", "hybrid", "model-average"] {
            assert_eq!(policy(&format!("x --sync {name}")).as_str(), name);
        }
    }

    #[test]
    fn changes_are_merged_as_the_program_says_unless_told_otherwise() {
        let rule = |line: &str| {
            let args = Args::try_parse_from(line.split(' ')).unwrap();
            args.merge.rule(args.sync.sync, MergeRule::Combine)
        };
        assert_eq!(rule("x"), MergeRule::Combine);
        assert_eq!(rule("x --sync hybrid --merge sum"), MergeRule::Sum);
        assert_eq!(rule("x --merge combine"), MergeRule::Combine);
        // These have rules of their own; what is asked for all the same is refused by the loop.
        assert_eq!(rule("x --sync ssp"), MergeRule::Sum);
        assert_eq!(rule("x --sync model-average --merge combine"), MergeRule::Combine);
        let interval = |line: &str| Args::try_parse_from(line.split(' ')).unwrap().merge.interval();
        assert_eq!(["x", "x --interval 2", "x --sync ssp"].map(interval), [1, 2, 1]);
    }

    #[test]
    fn sizes_of_nothing_are_refused() {
        for option in
            ["--minibatch=0", "--average-every=0", "--interval=0", "--merge=mean", "--staleness=-1", "--sync=async"]
        {
            assert!(Args::try_parse_from(["x", option]).is_err(), "{option}");
        }
    }
}

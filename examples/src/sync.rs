//! The options of programs with synchronous loops.

use std::num::NonZeroUsize;

use stradsap::{Session, SyncPolicy};

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

    /// Elements of a minibatch [default: as the program says]
    #[arg(long, value_name = "M")]
    pub minibatch: Option<NonZeroUsize>,

    /// With --sync model-average: minibatches of each copy from one average to the next [default: all of an epoch]
    #[arg(long, value_name = "K")]
    pub average_every: Option<NonZeroUsize>,
}

impl SyncArgs {
    /// The policy of a loop of so many minibatches.
    pub fn policy(&self, session: &Session, minibatches: usize) -> SyncPolicy {
        match self.sync {
            Sync::Bsp => SyncPolicy::Bsp,
            Sync::Ssp => SyncPolicy::Ssp { staleness: self.staleness },
            Sync::Hybrid => SyncPolicy::Hybrid,
            Sync::ModelAverage => {
                let epoch = minibatches.div_ceil(threads(session)).max(1);
                SyncPolicy::ModelAverage { every: self.average_every.map_or(epoch, NonZeroUsize::get) }
            }
        }
    }
}

/// The threads of all processes: as many copies as there are, but under `Hybrid`.
pub fn threads(session: &Session) -> usize {
    session.threads() * session.workers().max(1)
}

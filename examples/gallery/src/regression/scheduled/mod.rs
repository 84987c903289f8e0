//! What scheduled regressions share: which jobs there are, which of them a round has, and what the driver makes of their sums.

mod correlation;
mod design;
mod drawn;
mod job;
mod model;
mod newton;
mod options;
mod path;
mod rounds;
mod set;
mod working;

pub use design::Design;
pub use drawn::Drawn;
pub use job::{Block, Change, Job, Partial, Sums};
pub use model::Model;
pub use newton::{Newton, NewtonSet};
pub use options::{FitArgs, ScheduleArgs, ScheduleName};
pub use path::Path;
pub use rounds::{Always, Kept, Rounds};
pub use set::Set;
pub use working::{Move, WorkingSet};

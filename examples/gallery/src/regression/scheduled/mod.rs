//! Sparse regression as a scheduled program: `program` and `aggregate` are what jobs do; `chosen`, `working` and `newton` say
//! which jobs there are in which round; `solver` runs them.

mod aggregate;
mod chosen;
mod job;
mod model;
mod newton;
mod program;
mod set;
mod solver;
mod train;
mod working;

pub use chosen::{Chosen, Correlation, Once};
pub use job::{Block, Change, Job, Partial};
pub use model::Model;
pub use newton::NewtonSet;
pub use program::{Regression, Rest};
pub use solver::{Epoch, Solver};
pub use train::{ScheduleArgs, ScheduleName, train};
pub use working::WorkingSet;

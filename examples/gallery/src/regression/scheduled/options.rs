//! The command line of scheduled regressions, and the schedule that it asks for.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use stradsap::{Pick, Session};
use stradsap_examples::numbers::{nonzero, not_negative};
use stradsap_examples::{AnyError, CommonArgs, Error, Result, Training};

use super::correlation::Correlation;
use super::design::Design;
use super::drawn::{Drawn, DrawnOptions};
use super::rounds::Rounds;
use super::set::Set;
use crate::regression::Loss;
use crate::regression::args::RegressionArgs;
use crate::regression::columns::Part;
use crate::regression::fit::Fit;
use crate::regression::problem::Problem;

/// Values that correlations are estimated on, at most.
const SAMPLE_VALUES: usize = 1 << 24;

/// The command line of a regression with a schedule.
#[derive(Debug, Clone, clap::Args)]
pub struct FitArgs {
    /// What is fitted.
    #[command(flatten)]
    pub regression: RegressionArgs,
    /// What is updated when.
    #[command(flatten)]
    pub schedule: ScheduleArgs,
    /// Options of every example.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl FitArgs {
    /// Checks the command line, begins a run and reads the data.
    ///
    /// # Errors
    /// Of the options, the input and the session.
    pub fn start<'a>(
        &'a self,
        name: &'static str,
        session: &'a Session,
        loss: Loss,
    ) -> std::result::Result<(Training<'a, Fit>, Problem), AnyError> {
        self.schedule.check(&self.common).map_err(Error::for_main)?;
        let run = Training::start(name, session, &self.common)?;
        let problem = Problem::read(self.common.data.as_deref(), loss, &self.regression).map_err(Error::for_main)?;
        Ok((run, problem))
    }

    /// The schedule: `on_set` makes that of a working set, which ends at a relative gap.
    pub fn rounds<S, F: FnOnce(Set, f64) -> S>(
        &self,
        problem: &Problem,
        parts: &[Part],
        on_set: F,
    ) -> Rounds<S, impl Fn(usize, usize) -> f64 + Clone + use<S, F>> {
        let (args, design) = (&self.schedule, Design::of(problem));
        let stored = |column: usize| parts.iter().map(|part| part.stored_or_height(column)).sum::<usize>() as u32;
        let mut stored: Vec<u32> = (0..problem.scaling.len()).map(stored).collect();
        let pick = match args.schedule {
            ScheduleName::WorkingSet => {
                return Rounds::Set(on_set(Set::new(problem, &design, stored), self.regression.tolerance));
            }
            ScheduleName::Random => Pick::Random,
            ScheduleName::Cyclic => Pick::Cyclic,
            ScheduleName::Priority | ScheduleName::PriorityDependency => Pick::Priority,
        };
        stored.push(problem.table.len() as u32);
        let columns = design.with_intercept(&problem.columns());
        let compared = args.schedule == ScheduleName::PriorityDependency;
        let correlation = compared.then(|| Arc::new(Correlation::new(sample(problem), problem.centred)));
        let numbered: Arc<[u32]> = columns.as_slice().into();
        let options = DrawnOptions {
            pick,
            width: args.concurrent.into(),
            updates: args.updates_per_epoch.map_or(columns.len() as u64, |updates| updates.get().into()),
            seed: self.common.seed,
            rho: if compared { args.correlation } else { f64::INFINITY },
            correlation: move |a: usize, b: usize| {
                correlation.as_ref().map_or(0.0, |each| each.between(numbered[a] as usize, numbered[b] as usize))
            },
        };
        Rounds::Drawn(Box::new(Drawn::new(&design, columns, stored, options)))
    }
}

/// Rows enough to estimate correlations on.
fn sample(problem: &Problem) -> Part {
    let (rows, values) = (problem.table.len() as u128, problem.table.values());
    let rows = if values <= SAMPLE_VALUES { rows } else { rows * SAMPLE_VALUES as u128 / values as u128 };
    Part::rows(problem, 0..rows as usize)
}

/// How the coefficients of a round are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ScheduleName {
    /// Blocks of a growing set of columns that the gradient and the gap choose
    WorkingSet,
    /// At random (Shotgun)
    Random,
    /// In proportion to the square of the last change
    Priority,
    /// The same, without any that is correlated with another one of its round or in flight
    #[value(name = "priority+dependency")]
    PriorityDependency,
    /// In turn
    Cyclic,
}

/// The options of the schedule.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Schedule")]
pub struct ScheduleArgs {
    /// How the coefficients of a round are chosen
    #[arg(long, value_enum, default_value_t = ScheduleName::WorkingSet)]
    pub schedule: ScheduleName,

    /// Coefficients that are updated at the same time and don't see each other's changes; not for working-set
    #[arg(long, value_name = "L", default_value = "4", value_parser = nonzero::<NonZeroUsize>)]
    pub concurrent: NonZeroUsize,

    /// With priority+dependency: how much two columns may be correlated if their coefficients are updated at the same time
    #[arg(long, value_name = "RHO", default_value_t = 0.1, value_parser = not_negative::<f64>)]
    pub correlation: f64,

    /// Rounds that are in flight at the same time: updates of a round don't see the changes of the D - 1 rounds before it [default:
    /// 3, or 1 with working-set, whose rounds need each other's changes]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub pipeline: Option<u16>,

    /// Updates between two computations of the gradient of all columns, objective and gap [default: as many as there are columns];
    /// not for working-set, whose epoch is a set
    #[arg(long, value_name = "U", value_parser = nonzero::<NonZeroU32>)]
    pub updates_per_epoch: Option<NonZeroU32>,

    /// Parts that the rows are cut into [default: by the size of the data]
    #[arg(long, value_name = "P", value_parser = nonzero::<NonZeroU16>)]
    pub parts: Option<NonZeroU16>,
}

impl ScheduleArgs {
    /// How many rounds are in flight.
    pub fn pipeline(&self) -> usize {
        self.pipeline.map_or(if self.schedule == ScheduleName::WorkingSet { 1 } else { 3 }, usize::from)
    }

    fn check(&self, common: &CommonArgs) -> Result<()> {
        for (option, asked) in [("--dot", &common.dot), ("--plan", &common.plan)] {
            if asked.is_some() {
                let problem = "a scheduled program has no conflict graph; leave the option out".to_owned();
                return Err(Error::Usage { option, problem });
            }
        }
        if self.schedule == ScheduleName::WorkingSet && self.pipeline() > 1 {
            let problem =
                "rounds of --schedule working-set need each other's changes; leave the option out, or choose \
                           another schedule"
                    .to_owned();
            return Err(Error::Usage { option: "--pipeline", problem });
        }
        Ok(())
    }
}

//! What a loop says of its plan.

use serde::{Deserialize, Serialize};

/// The serial order that a loop's result must be equal to: the option `order = Preserve` or `Any`.
///
/// ```
/// # use stradsap_planner as stradsap;
/// assert_eq!(stradsap::Order::default(), stradsap::Order::Any);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Any order: the planner picks one with much parallelism.
    #[default]
    Any,
    /// The loop's own order: the result is bit-identical to that of the plain `for`.
    Preserve,
}

/// How a plan finds parallelism. The planner chooses by estimated time, or takes the strategy that `strategy = ...` names.
///
/// ```
/// # use stradsap_planner as stradsap;
/// assert_eq!(stradsap::Strategy::Grid.to_string(), "grid");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Strategy {
    /// No element is shared and written. Consecutive iterations form blocks, which all run at once.
    Aligned,
    /// Iterations are grouped by the parts of the DDSs that they touch.
    Grid,
    /// Single iterations are coloured, so that those of one colour share nothing.
    Coloured,
    /// Iterations are the cells of a table, which is cut into tiles of rows and columns. Tiles run along its diagonals, and the
    /// loop's order is kept.
    Tiled,
    /// Iterations run one after the other.
    Serial,
}

impl Strategy {
    /// The name in reports.
    ///
    /// ```
    /// # use stradsap_planner as stradsap;
    /// assert_eq!(stradsap::Strategy::Aligned.as_str(), "aligned");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::Aligned => "aligned",
            Strategy::Grid => "grid",
            Strategy::Coloured => "coloured",
            Strategy::Tiled => "tiled",
            Strategy::Serial => "serial",
        }
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The options of a loop that its plan depends on.
///
/// ```
/// use stradsap_planner::{PlanOptions, Strategy};
///
/// let options = PlanOptions { parts: Some(8), strategy: Some(Strategy::Grid), ..PlanOptions::default() };
/// assert_ne!(options, PlanOptions::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// Which serial order the plan may have.
    pub order: Order,
    /// Into how many parts each shared DDS is cut, or into how many blocks a loop without conflicts; none: the planner
    /// chooses.
    pub parts: Option<usize>,
    /// How many iterations are enough work for a block; none: the planner estimates it from the accesses.
    pub grain: Option<usize>,
    /// The one strategy that is considered; none: the planner chooses.
    pub strategy: Option<Strategy>,
    /// Whether the iterations of a block keep the loop's order, since each uses what the ones before left in the scratch.
    pub scratch: bool,
    /// Whether all blocks run in one process. On workers, which hold parts of DDSs, no block is a tile, and loops of light
    /// iterations have blocks for all workers.
    pub one_process: bool,
    /// For a loop over pairs: how many iterations each row has.
    pub columns: Option<usize>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        let (parts, grain, strategy) = (None, None, None);
        PlanOptions { order: Order::Any, parts, grain, strategy, scratch: false, one_process: true, columns: None }
    }
}

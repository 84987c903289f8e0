//! What a loop says of its plan.

use serde::{Deserialize, Serialize};

/// Which serial order a loop must be equal to: `order = Preserve` behind a loop's closure.
///
/// ```
/// assert_eq!(stradsap_planner::Order::default(), stradsap_planner::Order::Any);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Any: the planner picks one with much parallelism.
    #[default]
    Any,
    /// The loop's own: bit-identical to the plain `for`.
    Preserve,
}

/// How a plan finds parallelism. The planner chooses by estimated time, or takes the one that `strategy = ...` names.
///
/// ```
/// assert_eq!(stradsap_planner::Strategy::Grid.to_string(), "grid");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Strategy {
    /// No element is shared and written: consecutive iterations in blocks, all at once.
    Aligned,
    /// Iterations grouped by the parts of the DDSs that they touch.
    Grid,
    /// Single iterations coloured so that those of one colour share nothing.
    Coloured,
    /// Iterations that are cells of a table, cut into tiles of rows and columns that run along its diagonals. Keeps the
    /// loop's order.
    Tiled,
    /// One after the other.
    Serial,
}

impl Strategy {
    /// The name in reports.
    ///
    /// ```
    /// assert_eq!(stradsap_planner::Strategy::Aligned.as_str(), "aligned");
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
    /// How many iterations are work enough for a block; none: the planner guesses it from the accesses.
    pub grain: Option<usize>,
    /// The one strategy that is considered; none: the planner chooses.
    pub strategy: Option<Strategy>,
    /// Whether the iterations of a block keep the loop's order, since one uses what others left in the scratch.
    pub scratch: bool,
    /// Whether all blocks run in one process. On workers, which hold parts of DDSs, no block is a tile, and loops of light
    /// iterations have blocks for all workers.
    pub one_process: bool,
    /// How many iterations each row has of a loop over pairs.
    pub columns: Option<usize>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        let (parts, grain, strategy) = (None, None, None);
        PlanOptions { order: Order::Any, parts, grain, strategy, scratch: false, one_process: true, columns: None }
    }
}

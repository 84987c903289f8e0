//! Programs as one would write them, each beside its plain loop, which it must equal bit for bit: in the order that the report
//! says, or under `order = Preserve` in the loop's own. What the report says of each is in a table. `cargo bench --bench programs`
//! runs the same programs on the clock.

#![allow(dead_code, reason = "benchmarks take the programs alone")]
#![allow(clippy::needless_range_loop, reason = "loops as one would write them")]

mod counting;
mod dense;
mod factors;
mod graphs;
mod grids;
mod learning;
mod linear;
mod networks;
mod series;
mod stencils;
mod trial;

use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;
pub(crate) use trial::Trial;

/// A program, and what the report of its main loop must say.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Session, &mut Seen, &mut Trial) -> stradsap::Result<LoopReport>,
    /// None where it is of no account.
    pub(crate) strategy: Option<Strategy>,
    /// At least, and below.
    pub(crate) parallelism: (f64, f64),
    /// A part of it.
    pub(crate) advice: Option<&'static str>,
}

pub(crate) const ANY: f64 = f64::INFINITY;

macro_rules! programs {
    ($($module:ident :: $name:ident: $($strategy:ident)?, $least:literal .. $below:expr, $advice:expr;)*) => {
        /// All programs.
        pub(crate) const PROGRAMS: &[Program] = &[$(Program {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: $module::$name,
            strategy: [$(Strategy::$strategy)?].first().copied(),
            parallelism: ($least, $below),
            advice: $advice,
        }),*];

        pub(crate) const SCENARIOS: &[Scenario] = &[$(
            Scenario { name: stringify!($name), run: |session, seen| $module::$name(session, seen, &mut Trial::default()).map(drop) }
        ),*];
    };
}

programs! {
    factors::tensor_decomposition: Grid, 2.0..ANY, None;
    factors::bayesian_ranking: Grid, 2.0..ANY, None;
    factors::factorisation_machine: Serial, 1.0..2.0, Some("`sync_parallel_for!`");
    factors::biased_ratings: Grid, 2.0..ANY, None;
    factors::biased_ratings_with_their_mean: Serial, 1.0..2.0, Some("every iteration touches `mean[0]`, and it is written");
    linear::kaczmarz: Coloured, 2.0..ANY, None;
    linear::kaczmarz_of_dense_rows: Serial, 1.0..2.0, Some("`sync_parallel_for!`");
    linear::svm_by_dual_coordinates: Serial, 1.0..2.0, Some("`sync_parallel_for!`");
    linear::logistic_regression: Coloured, 2.0..ANY, None;
    linear::perceptron_in_order: Serial, 1.0..2.0, Some("every iteration touches `mistakes[0]`");
    grids::ising_model: Grid, 2.0..ANY, None;
    grids::gauss_seidel: Serial, 1.0..2.0, Some("leave out `order = Preserve`");
    grids::jacobi: Aligned, 2.0..ANY, None;
    grids::over_relaxation_by_colours: Grid, 1.0..ANY, None;
    grids::edit_distance: Serial, 1.0..2.0, Some("write `table.old[..]` where they read it");
    grids::game_of_life: Aligned, 2.0..ANY, None;
    graphs::label_propagation: Coloured, 2.0..ANY, None;
    graphs::colouring: Coloured, 2.0..ANY, None;
    graphs::shortest_paths: Grid, 2.0..ANY, None;
    graphs::shortest_paths_by_condition: Serial, 1.0..2.0, Some("whether it changes or not");
    graphs::depths_that_are_expected: Serial, 1.0..2.0, Some("`expect` what others write after that");
    graphs::floyd_warshall: Aligned, 1.0..ANY, Some("`grain");
    graphs::union_find: Serial, 1.0..2.0, Some("the loop is short");
    counting::monte_carlo: Aligned, 2.0..ANY, None;
    counting::nearest_centres: Aligned, 2.0..ANY, None;
    counting::weights_of_words: Grid, 2.0..ANY, None;
    counting::weights_of_a_common_word: Serial, 1.0..2.0, Some("`count_by_key`");
    counting::histogram: , 2.0..ANY, None;
    counting::word_counts: , 1.0..ANY, None;
    counting::pairs_of_words: , 2.0..ANY, None;
    counting::means_of_items: Grid, 2.0..ANY, None;
    counting::largest_of_each: Grid, 2.0..ANY, None;
    counting::sieve: Serial, 1.0..2.0, None;
    counting::running_mean: Serial, 1.0..2.0, Some("leave out `order = Preserve`");
    dense::triangular_factors: Aligned, 1.0..ANY, None;
    dense::bodies_in_space: Aligned, 2.0..ANY, None;
    dense::matrix_product: Aligned, 2.0..ANY, None;
    dense::column_sums: Grid, 2.0..ANY, Some("`sum sums`");
    dense::factors_of_a_table: Grid, 2.0..ANY, None;
    dense::few_long_iterations: Aligned, 1.0..ANY, None;
    dense::a_short_loop: Aligned, 1.0..ANY, Some("the loop is short");
    learning::field_aware_machine: Grid, 1.5..ANY, None;
    learning::alternating_least_squares: Aligned, 1.0..ANY, Some("`grain");
    learning::factors_by_multiplication: Aligned, 2.0..ANY, None;
    learning::gaussian_mixture: Aligned, 2.0..ANY, None;
    learning::adaptive_rates: Coloured, 2.0..ANY, None;
    learning::boosted_stumps: Aligned, 2.0..ANY, None;
    learning::random_forest: Aligned, 2.0..ANY, None;
    learning::nearest_neighbours: Aligned, 2.0..ANY, None;
    learning::embedded_points: Aligned, 2.0..ANY, None;
    learning::least_hashes: Aligned, 1.0..ANY, None;
    series::kalman_filters: Aligned, 2.0..ANY, None;
    series::hidden_states: Aligned, 2.0..ANY, None;
    series::local_alignment: Tiled, 2.0..ANY, None;
    series::knapsack: Aligned, 1.0..ANY, Some("`grain");
    series::annealed_tours: Aligned, 2.0..ANY, None;
    series::reservoirs: Grid, 2.0..ANY, None;
    series::records_with_mistakes: Grid, 2.0..ANY, None;
    series::bootstrap: Aligned, 2.0..ANY, None;
    networks::pagerank_with_sinks: Aligned, 2.0..ANY, None;
    networks::k_core: Aligned, 2.0..ANY, None;
    networks::triangles: Aligned, 2.0..ANY, None;
    networks::connected_components: Aligned, 2.0..ANY, None;
    networks::similar_nodes: Aligned, 2.0..ANY, None;
    networks::dense_points: Aligned, 2.0..ANY, None;
    networks::inverted_index: Serial, 1.0..2.0, Some("use an operator of the DVector that the loop goes through");
    stencils::heat: Grid, 2.0..ANY, None;
    stencils::gauss_seidel_of_a_square: Tiled, 2.0..ANY, None;
    stencils::ising_by_colours: Grid, 2.0..ANY, None;
    stencils::fourier_transform: Aligned, 1.0..ANY, Some("the loop is short");
    stencils::cholesky: Aligned, 1.0..ANY, Some("the loop is short");
    stencils::belief_propagation: Aligned, 2.0..ANY, None;
}

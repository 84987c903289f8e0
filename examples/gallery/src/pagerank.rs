//! PageRank, as far as the parallel program and its sequential twin share it: options, measures, and what is shown and
//! stored at the end.
//!
//! With damping d and n pages, the rank of a page is `(1 - d) / n`, and d times what it gets: of each page that links to
//! it that page's rank over the number of links there, and an equal share of the ranks of pages without links.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stradsap_examples::Result;
use stradsap_examples::files::{Staged, create_folder};
use stradsap_examples::numbers::{fraction, not_negative};
use stradsap_examples::print_line;
use stradsap_examples::run::Measures;

use crate::graph::Graph;
use crate::rmat::rmat;

/// The options of PageRank.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "PageRank")]
pub struct RankArgs {
    /// The part of a page's rank that flows on through links
    #[arg(long, value_name = "D", default_value_t = 0.85, value_parser = fraction)]
    pub damping: f64,

    /// Stop when the ranks change by less than this in an iteration, summed over all pages
    #[arg(long, value_name = "T", default_value_t = 1e-10, value_parser = not_negative::<f64>)]
    pub tolerance: f64,

    /// Show the pages of highest rank
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// Without --data: the binary logarithm of the number of pages of a random graph (R-MAT)
    #[arg(long, value_name = "S", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=28), conflicts_with = "data")]
    pub scale: u32,

    /// Without --data: the links of a random graph for each page
    #[arg(long, value_name = "L", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "data")]
    pub links_per_page: u32,
}

impl RankArgs {
    /// The graph of a file, or a random one.
    ///
    /// # Errors
    /// As [`Graph::read`].
    pub fn graph(&self, data: Option<&Path>, seed: u64) -> Result<Graph> {
        data.map_or_else(|| Ok(rmat(self.scale, self.links_per_page, seed)), Graph::read)
    }

    /// What the ranks depend on, besides the number of iterations.
    pub fn settings(&self, seed: u64, size: &DataSize) -> String {
        format!("{size}, --damping {} --seed {seed}", self.damping)
    }
}

/// The graph's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct DataSize {
    /// Pages.
    pub pages: usize,
    /// Links between them.
    pub links: usize,
    /// Pages without a link on them.
    pub dangling: usize,
    /// Links that lead to the page that they are on.
    pub self_links: usize,
    /// Links that are like another.
    pub repeated_links: usize,
}

impl DataSize {
    /// Of a graph.
    pub fn of(graph: &Graph) -> DataSize {
        DataSize {
            pages: graph.pages(),
            links: graph.links(),
            dangling: graph.links_out().iter().filter(|&&links| links == 0).count(),
            self_links: graph.self_links(),
            repeated_links: graph.repeated_links(),
        }
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DataSize { pages, links, dangling, self_links, repeated_links } = self;
        write!(
            f,
            "{pages} pages ({dangling} without links), {links} links ({self_links} to their own page, \
             {repeated_links} repeated)"
        )
    }
}

/// What an iteration did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// By how much the ranks changed, summed over all pages.
    pub change: f64,
    /// The sum of the ranks of pages without links.
    pub dangling_rank: f64,
}

impl Measures for Change {
    const AXIS: &'static str = "change of all ranks";
    const ADVICE: &'static str = "try a smaller --damping";

    fn objective(&self) -> f64 {
        self.change
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        vec![("change", self.change)]
    }
}

/// Into how many shares a page's rank goes: as many as it has links, or one, that stays.
#[inline]
pub fn ways(links_out: u32) -> f64 {
    f64::from(links_out.max(1))
}

/// The ranks, of each page's share.
pub fn ranks(graph: &Graph, shares: impl Iterator<Item = f64>) -> Vec<f64> {
    shares.zip(graph.links_out()).map(|(share, &links)| share * ways(links)).collect()
}

/// Prints the pages of highest rank, one a line: id, tab, rank. Of equal ranks the smaller id comes first.
///
/// # Errors
/// [`Error::Output`](stradsap_examples::Error::Output).
pub fn show_top(graph: &Graph, ranks: &[f64], top: usize) -> Result<()> {
    let line = |page: usize| print_line(&format!("{}\t{:e}", graph.ids()[page], ranks[page]));
    by_rank(graph, ranks).into_iter().take(top).try_for_each(line)
}

/// Stores all ranks in a folder: `ranks.tsv`, as [`show_top`] prints them.
///
/// # Errors
/// [`Error::File`](stradsap_examples::Error::File).
pub fn store(folder: &Path, graph: &Graph, ranks: &[f64]) -> Result<()> {
    create_folder(folder)?;
    let staged = Staged::write(&folder.join("ranks.tsv"), |out| {
        by_rank(graph, ranks).into_iter().try_for_each(|page| writeln!(out, "{}\t{:e}", graph.ids()[page], ranks[page]))
    })?;
    staged.commit()
}

/// The pages' numbers, highest rank first.
fn by_rank(graph: &Graph, ranks: &[f64]) -> Vec<usize> {
    let mut pages: Vec<usize> = (0..ranks.len()).collect();
    let ids = graph.ids();
    pages.sort_unstable_by(|&a, &b| ranks[b].total_cmp(&ranks[a]).then(ids[a].cmp(&ids[b])));
    pages
}

//! The order of blocks as a picture, in the DOT language.

use std::path::Path;

use petgraph::dot::{Config, Dot};
use petgraph::graph::DiGraph;

use crate::session::error::{Error, Result};
use crate::session::report::LoopReport;

/// Graphs larger than this can't be drawn by anybody.
const MOST_BLOCKS: usize = 2000;

/// Writes the graph of a plan: a node a block, an edge where one must wait for another. Of larger graphs the first
/// blocks are shown, and a node that says so.
pub(crate) fn write(report: &LoopReport, path: &Path) -> Result<()> {
    let plan = &report.plan;
    let shown = plan.blocks.len().min(MOST_BLOCKS);
    let mut graph: DiGraph<String, ()> = DiGraph::with_capacity(shown, plan.graph.edges());
    let nodes: Vec<_> = (0..shown)
        .map(|b| {
            let block = plan.blocks[b];
            let mut name = format!("{b}: {} iterations", block.end - block.start);
            if let Some(parts) = &plan.parts {
                for touch in plan.touches(b) {
                    let (slot, part) = parts.part_of(touch.resource);
                    let dds = report.site.name(parts.captures[slot]);
                    let mode = if touch.write { "" } else { " (read)" };
                    name.push_str(&format!("\n{dds} part {part}{mode}"));
                }
            }
            graph.add_node(name)
        })
        .collect();
    for (b, &node) in nodes.iter().enumerate() {
        for &follower in plan.graph.followers(b) {
            if let Some(&follower) = nodes.get(follower as usize) {
                graph.add_edge(node, follower, ());
            }
        }
    }
    if shown < plan.blocks.len() {
        graph.add_node(format!("the first {shown} of {} blocks", plan.blocks.len()));
    }
    let text = format!(
        "{:?}",
        Dot::with_attr_getters(
            &graph,
            &[Config::EdgeNoLabel, Config::NodeNoLabel],
            &|_, _| String::new(),
            &|_, (_, name)| { format!("label = {name:?}") }
        )
    );
    std::fs::write(path, text).map_err(|source| Error::File { path: path.to_path_buf(), source })
}

//! The conflict graph of the blocks as a picture, in the DOT language.

use petgraph::dot::{Config, Dot};
use petgraph::visit::NodeFiltered;

use super::Plan;

/// Graphs larger than this can't be drawn by anybody.
const MOST_BLOCKS: usize = 2000;

impl Plan {
    /// The conflict graph as text in the DOT language: a node for each block, and an edge if one block must wait for another. Of a
    /// large graph only the first blocks are shown, and a node says so. `name` names captures.
    pub fn dot(&self, name: &dyn Fn(usize) -> &'static str) -> String {
        let shown = NodeFiltered::from_fn(self.graph.graph(), |block: u32| (block as usize) < MOST_BLOCKS);
        let label = |block: u32| format!("label = {:?}", self.label(block as usize, name));
        let config = [Config::EdgeNoLabel, Config::NodeNoLabel];
        let no_attributes = |_, _| String::new();
        let mut text =
            format!("{:?}", Dot::with_attr_getters(&shown, &config, &no_attributes, &|_, (block, _)| label(block)));
        let blocks = self.blocks.len();
        if blocks > MOST_BLOCKS
            && let Some(end) = text.rfind('}')
        {
            text.insert_str(end, &format!("    {blocks} [ label = \"the first {MOST_BLOCKS} of {blocks} blocks\" ]\n"));
        }
        text
    }

    fn label(&self, b: usize, name: &dyn Fn(usize) -> &'static str) -> String {
        let block = self.blocks[b];
        let mut label = format!("{b}: {} iterations", block.end - block.start);
        for touch in self.touches(b) {
            let Some(parts) = &self.parts else { break };
            let (slot, part) = parts.part_of(touch.resource);
            let mode = if touch.write { "" } else { " (read)" };
            label.push_str(&format!("\n{} part {part}{mode}", name(parts.captures[slot])));
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Touch;

    #[test]
    fn of_a_large_graph_the_first_blocks_are_shown() {
        let touches = vec![vec![Touch { resource: 0, write: true }]; MOST_BLOCKS + 7];
        let text = Plan::of_touches(&[1], vec![1; touches.len()], &touches).dot(&|_| "x");
        let lines = text.lines().filter(|line| line.contains('['));
        let (edges, nodes): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("->"));
        assert_eq!((nodes.len(), edges.len()), (MOST_BLOCKS + 1, MOST_BLOCKS - 1));
        assert!(nodes[1].contains("1: 1 iterations\\nx part 0"), "{}", nodes[1]);
        assert!(text.trim_end().ends_with("the first 2000 of 2007 blocks\" ]\n}"), "{text}");
    }
}

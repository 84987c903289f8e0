//! Lists of edges, as SNAP has them.

use serde::{Deserialize, Serialize};

use super::apart::Travelling;
use super::blocks::{Format, Parsed, misplaced};
use super::text::{each_line, excerpt, last_line, number, words};
use crate::Element;

/// An edge of a graph: [`read_edges`](crate::ReadFiles::read_edges).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Element)]
pub struct Edge {
    /// The node where it begins.
    pub from: u32,
    /// The node where it ends.
    pub to: u32,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Edges;

impl Travelling for Edges {}

impl Format for Edges {
    type Head = ();
    type Scratch = ();
    type Item = Edge;

    fn head(&self, _: &[u8], _: bool) -> Parsed<Option<((), usize)>> {
        Ok(Some(((), 0)))
    }

    fn scratch(&self) {}

    fn border(&self, (): &(), bytes: &[u8]) -> usize {
        last_line(bytes)
    }

    fn parse(&self, (): &(), bytes: &[u8], (): &mut (), items: &mut Vec<Edge>) -> Parsed<()> {
        each_line(bytes, |start, line| {
            let mut words = words(start, line);
            let Some((at, word)) = words.next().filter(|(_, word)| word[0] != b'#') else { return Ok(()) };
            let from = node(at, word)?;
            let Some((at, word)) = words.next() else {
                return misplaced(start + line.len(), "the edge has no second node; two numbers were expected");
            };
            let to = node(at, word)?;
            if let Some((at, word)) = words.next() {
                return misplaced(at, format!("{} follows the edge; two numbers were expected", excerpt(word)));
            }
            items.push(Edge { from, to });
            Ok(())
        })
    }
}

fn node(at: usize, word: &[u8]) -> Parsed<u32> {
    number(at, word, "the node", format_args!("a number from 0 to {}", u32::MAX))
}

//! Random graphs that look like the Web: R-MAT (Chakrabarti, Zhan, Faloutsos: "R-MAT: a recursive model for graph
//! mining", SDM 2004), with the parts that Graph 500 uses.

use stradsap::random::Stream;

use crate::graph::Graph;

/// The purpose of the random numbers that choose links.
const LINKS: u64 = 0x4a7;
/// Of 2^16 links those whose two ends lie in the lower and lower, lower and upper, upper and lower half of a range.
const PARTS: [u16; 3] = [37_355, 12_452, 12_452];

/// Levels that 64 random bits serve.
const LEVELS: u32 = 4;

/// A graph of `2^scale` pages, numbered from 0, with `links_per_page` times as many links; `scale` is at most 31. The
/// same seed, the same graph. Some pages have no link at all; some links come more than once.
pub fn rmat(scale: u32, links_per_page: u32, seed: u64) -> Graph {
    let ids: Vec<u64> = (0..1u64 << scale).collect();
    let stream = Stream::new(seed, LINKS);
    let links = (0..ids.len() as u64 * u64::from(links_per_page)).map(|k| link(stream, k, scale)).collect();
    Graph::new(&ids, links)
}

/// Link `k`: each bit of its ends, from the highest, is chosen by 16 random bits.
fn link(stream: Stream, k: u64, scale: u32) -> (u32, u32) {
    let [a, b, c] = PARTS;
    let (mut from, mut to) = (0, 0);
    for block in 0..scale.div_ceil(LEVELS) {
        // Eight blocks a link: a scale of 31 needs all.
        let random = stream.bits(8 * k + u64::from(block));
        for level in 0..LEVELS.min(scale - block * LEVELS) {
            let random = (random >> (16 * level)) as u16;
            // Without a branch, which couldn't be foreseen.
            let row = u32::from(random >= a + b);
            let column = u32::from(random >= a) - row + u32::from(random >= a + b + c);
            (from, to) = (2 * from + row, 2 * to + column);
        }
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_have_their_parts_of_the_links() {
        let stream = Stream::new(3, LINKS);
        let links: Vec<_> = (0..40_000).map(|k| link(stream, k, 10)).collect();
        for bit in [9, 5, 0] {
            let mut quarters = [0.0f64; 4];
            links.iter().for_each(|(from, to)| quarters[((from >> bit & 1) * 2 + (to >> bit & 1)) as usize] += 1.0);
            for (found, expected) in quarters.iter().zip([0.57, 0.19, 0.19, 0.05]) {
                assert!((found / 40_000.0 - expected).abs() < 0.01, "{quarters:?}");
            }
        }
    }

    #[test]
    fn the_seed_makes_the_graph() {
        let graph = rmat(8, 4, 1);
        assert_eq!((graph.pages(), graph.links()), (256, 1024));
        assert_eq!(graph, rmat(8, 4, 1));
        assert_ne!(graph, rmat(8, 4, 2));
    }
}

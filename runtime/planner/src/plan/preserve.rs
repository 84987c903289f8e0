//! Blocks that keep the loop's own order.
//!
//! Iterations are taken in their order. One joins the newest block of its group as long as no other block that
//! conflicts with it was begun on its parts since; otherwise it begins a new block. The blocks in the order of
//! their beginning are then a serial order in which all conflicting iterations stand as in the loop.

use super::group::Groups;

/// Blocks smaller than this on average are not worth their dispatch.
pub(crate) const WORTH_A_BLOCK: usize = 32;

/// The group and the iterations of each block.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) group: Vec<u16>,
    pub(crate) cost: Vec<u64>,
    pub(crate) offsets: Vec<u32>,
    pub(crate) starts: Vec<usize>,
}

/// The blocks, or none if they are smaller than they should be on average, or too many.
pub(crate) fn runs(groups: &Groups, resources: usize, most: usize, worth_a_block: usize) -> Option<Runs> {
    const NOBODY: u32 = u32::MAX;
    let n: usize = groups.of.iter().map(Vec::len).sum();
    let most = most.min(n / worth_a_block.max(1)).max(1);
    // The newest block that wrote each part, and the newest that touched it.
    let mut writer = vec![NOBODY; resources];
    let mut toucher = vec![NOBODY; resources];
    let mut open = vec![NOBODY; groups.touches.len()];
    let mut group: Vec<u16> = Vec::new();
    let mut sizes: Vec<u32> = Vec::new();
    let mut block_of: Vec<u32> = Vec::with_capacity(n);
    for g in groups.each() {
        let mine = open[g as usize];
        let overtaken = |touch: &super::graph::Touch| {
            let newest = if touch.write { toucher[touch.resource as usize] } else { writer[touch.resource as usize] };
            newest != NOBODY && newest > mine
        };
        let block = if mine != NOBODY && !groups.touches[g as usize].iter().any(overtaken) {
            mine
        } else {
            let block = group.len() as u32;
            if group.len() >= most {
                return None;
            }
            group.push(g);
            sizes.push(0);
            open[g as usize] = block;
            for touch in &groups.touches[g as usize] {
                let at = touch.resource as usize;
                toucher[at] = block;
                if touch.write {
                    writer[at] = block;
                }
            }
            block
        };
        sizes[block as usize] += 1;
        block_of.push(block);
    }
    let mut starts = vec![0usize];
    for &size in &sizes {
        starts.push(starts[starts.len() - 1] + size as usize);
    }
    let mut next = starts.clone();
    let mut offsets = vec![0u32; n];
    for (i, &block) in block_of.iter().enumerate() {
        offsets[next[block as usize]] = i as u32;
        next[block as usize] += 1;
    }
    let cost = group
        .iter()
        .zip(&sizes)
        .map(|(&g, &size)| groups.cost[g as usize] * u64::from(size) / groups.iterations[g as usize].max(1) as u64)
        .collect();
    Some(Runs { group, cost, offsets, starts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::graph::Touch;

    fn groups(of: &[u16], touches: &[&[(u32, bool)]]) -> Groups {
        let touches: Vec<Box<[Touch]>> =
            touches.iter().map(|t| t.iter().map(|&(resource, write)| Touch { resource, write }).collect()).collect();
        let iterations =
            (0..touches.len()).map(|g| of.iter().filter(|&&o| o as usize == g).count()).collect::<Vec<_>>();
        Groups {
            cost: iterations.iter().map(|&n| n as u64).collect(),
            iterations,
            touches,
            of: vec![of.to_vec()],
            counts: Vec::new(),
            numbers: (0..9).collect(),
        }
    }

    #[test]
    fn independent_groups_stay_whole() {
        let of: Vec<u16> = (0..128).map(|i| i % 2).collect();
        let runs = runs(&groups(&of, &[&[(0, true)], &[(1, true)]]), 2, 100, WORTH_A_BLOCK).unwrap();
        assert_eq!(runs.group, [0, 1]);
        assert!(runs.offsets[..64].iter().all(|o| o % 2 == 0));
    }

    #[test]
    fn a_conflict_between_ends_a_block() {
        let mut of = vec![0; 64];
        of.extend([1; 64]);
        of.extend([0; 64]);
        let runs = runs(&groups(&of, &[&[(0, true)], &[(0, false)]]), 1, 100, WORTH_A_BLOCK).unwrap();
        assert_eq!(runs.group, [0, 1, 0]);
        assert_eq!(runs.offsets, (0..192).collect::<Vec<u32>>());
    }

    #[test]
    fn tiny_blocks_are_refused() {
        let of: Vec<u16> = (0..1000).map(|i| i % 2).collect();
        assert!(runs(&groups(&of, &[&[(0, true)], &[(0, true)]]), 1, 100, WORTH_A_BLOCK).is_none());
    }
}

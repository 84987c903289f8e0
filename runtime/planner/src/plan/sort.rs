//! Putting the iterations of each block side by side, in the order in which they run.

use super::group::{Groups, slices_a_run};
use crate::recording::Recording;
use crate::survey::LOOK;
use crate::threads::Threads;

/// How many places of a group take turns, where neighbours would wait for each other.
const STRANDS: usize = 16;
/// Groups smaller than this stay as they are.
const WORTH_INTERLEAVING: usize = 4 * STRANDS;

/// The iterations (offsets from the first) sorted by block, in loop order within each. `place[g]` is the
/// block of group `g`.
pub(crate) fn sort_by_block(
    groups: &Groups,
    renumbered: Option<&[u16]>,
    place: &[u32],
    pool: &dyn Threads,
) -> Vec<u32> {
    let block_of = |&group: &u16| match renumbered {
        Some(to) => place[to[group as usize] as usize],
        None => place[group as usize],
    };
    let blocks: Vec<u32> = groups.numbers.iter().map(block_of).collect();
    let slices = groups.of.len();
    let each = slices_a_run(slices);
    let counts: Vec<Vec<u32>> = pool.map(slices.div_ceil(each), |run| {
        let mut counts = vec![0u32; place.len()];
        for (&block, count) in blocks.iter().zip(&groups.counts[run]) {
            counts[block as usize] += count;
        }
        counts
    });
    let total = groups.of.iter().map(Vec::len).sum();
    let slice = groups.of.first().map_or(0, Vec::len);
    let mut offsets = pool.zeros(total);
    // Every run of slices writes to a stretch of its own in each block.
    let mut stretches: Vec<Vec<&mut [u32]>> = counts.iter().map(|_| Vec::with_capacity(place.len())).collect();
    let mut rest = offsets.as_mut_slice();
    for block in 0..place.len() {
        for (run, counts) in counts.iter().enumerate() {
            let (stretch, behind) = std::mem::take(&mut rest).split_at_mut(counts[block] as usize);
            rest = behind;
            stretches[run].push(stretch);
        }
    }
    let stretches: Vec<_> = stretches.into_iter().map(|run| std::sync::Mutex::new(Some(run))).collect();
    pool.map(stretches.len(), |run| {
        let Some(mut stretches) = crate::threads::locked(&stretches[run]).take() else { return };
        let mut filled = vec![0u32; stretches.len()];
        for (s, ids) in groups.of.iter().enumerate().skip(run * each).take(each) {
            for (k, &id) in ids.iter().enumerate() {
                let block = blocks[id as usize] as usize;
                stretches[block][filled[block] as usize] = (s * slice + k) as u32;
                filled[block] += 1;
            }
        }
    });
    offsets
}

/// Whether consecutive iterations of a block often write the same element: then each waits for the one before.
///
/// Looks at some stretches of each block only.
pub(crate) fn neighbours_collide(
    recording: &Recording<'_>,
    captures: &[usize],
    (offsets, starts): (&[u32], &[usize]),
    pool: &dyn Threads,
) -> bool {
    let counted = pool.map(starts.len() - 1, |b| {
        let (mut pairs, mut collisions) = (0usize, 0usize);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let block = &offsets[starts[b]..starts[b + 1]];
        for pair in block.windows(2).take(LOOK).chain(block[block.len() / 2..].windows(2).take(LOOK)) {
            pairs += 1;
            let hit = captures.iter().any(|&c| {
                one.clear();
                other.clear();
                recording.entries_of(pair[0] as usize, c, &mut one);
                recording.entries_of(pair[1] as usize, c, &mut other);
                writes_any_of(&one, &other)
            });
            collisions += usize::from(hit);
        }
        (pairs, collisions)
    });
    let (pairs, collisions) = counted.into_iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    collisions * 20 > pairs
}

/// Whether accesses of one iteration write an element of another's. Both are sorted, and may be long.
pub(super) fn writes_any_of(one: &[u32], other: &[u32]) -> bool {
    let mut other = other.iter().map(|b| b >> 1).peekable();
    one.iter().filter(|a| *a & 1 == 1).any(|a| {
        while other.next_if(|b| *b < a >> 1).is_some() {}
        other.peek() == Some(&(a >> 1))
    })
}

/// Lets places far apart in each block take turns, so that neighbours seldom wait for each other's result.
pub(crate) fn interleave(offsets: &mut [u32], starts: &[usize], pool: &dyn Threads) {
    let mut rest = offsets;
    let mut blocks = Vec::with_capacity(starts.len());
    for ends in starts.windows(2) {
        let (block, behind) = std::mem::take(&mut rest).split_at_mut(ends[1] - ends[0]);
        rest = behind;
        blocks.push(std::sync::Mutex::new(block));
    }
    pool.map(blocks.len(), |b| {
        let mut block = crate::threads::locked(&blocks[b]);
        let Some(places) = interleaved(block.len()) else { return };
        let old = block.to_vec();
        block.iter_mut().zip(places).for_each(|(slot, place)| *slot = old[place]);
    });
}

/// The old place of each place of a block of this many iterations, where places far apart take turns; none where they stay.
pub(crate) fn interleaved(n: usize) -> Option<impl Iterator<Item = usize>> {
    let each = n.div_ceil(STRANDS);
    let turn = move |place: usize| (0..STRANDS).map(move |strand| strand * each + place).filter(move |&old| old < n);
    (n >= WORTH_INTERLEAVING).then(|| (0..each).flat_map(turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_collide_where_one_writes_what_the_other_touches() {
        let (read, write) = (|at: u32| at << 1, |at: u32| at << 1 | 1);
        assert!(writes_any_of(&[read(1), write(3), read(9)], &[read(2), read(3)]));
        assert!(!writes_any_of(&[read(1), write(3), read(9)], &[read(1), write(9), read(11)]));
        assert!(!writes_any_of(&[write(3)], &[]) && !writes_any_of(&[], &[write(3)]));
    }
}

//! Sums in lanes, and finding where in them a number falls. What is added to what doesn't depend on the processor.

use wide::{f32x16, i32x16, u16x16, u32x16};

/// What is computed side by side.
pub(super) const LANES: usize = 16;

const QUARTER: usize = LANES / 4;

/// A sum for each lane.
#[derive(Clone, Copy)]
pub(super) struct Sums(f32x16);

const NUMBERS: [f32; LANES] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

#[inline(always)]
fn floats(counts: u32x16) -> f32x16 {
    f32x16::from_i32x16(bytemuck::cast::<u32x16, i32x16>(counts))
}

/// The lanes in which an entry, a topic in its low half, has this topic: a bit each.
#[inline(always)]
pub(super) fn lanes_with(chunk: &[u32; LANES], topic: u16) -> u32 {
    (u32x16::new(*chunk) & u32x16::splat(0xffff)).simd_eq(u32x16::splat(topic.into())).to_bitmask()
}

impl Sums {
    /// Of (count + alpha) phi, for as many as there are counts.
    #[inline(always)]
    pub(super) fn of_dense(counts: &[[u16; LANES]], alpha: f32, phi: &[[f32; LANES]]) -> Sums {
        let weights = |counts: &[u16; LANES], phi: &[f32; LANES]| {
            (floats(u32x16::from(u16x16::new(*counts))) + f32x16::splat(alpha)) * f32x16::new(*phi)
        };
        // Two at a time: neither waits for the other.
        let (mut even, mut odd) = (f32x16::ZERO, f32x16::ZERO);
        let (pairs, rest) = counts.as_chunks::<2>();
        let (phi_pairs, phi_rest) = phi[..counts.len()].as_chunks::<2>();
        for (counts, phi) in pairs.iter().zip(phi_pairs) {
            even += weights(&counts[0], &phi[0]);
            odd += weights(&counts[1], &phi[1]);
        }
        for (counts, phi) in rest.iter().zip(phi_rest) {
            even += weights(counts, phi);
        }
        Sums(even + odd)
    }

    /// Of count phi over entries with a topic in the low half and a count in the high half, less one where the topic is
    /// `old`.
    #[inline(always)]
    pub(super) fn of_sparse(chunks: &[[u32; LANES]], old: u16, phi: &[f32; 1 << 16]) -> Sums {
        let mut sums = f32x16::ZERO;
        let (low, old) = (u32x16::splat(0xffff), u32x16::splat(old.into()));
        for chunk in chunks {
            let entries = u32x16::new(*chunk);
            // A mask is -1.
            let counts = (entries >> 16u32) + (entries & low).simd_eq(old);
            let phi: [f32; LANES] = std::array::from_fn(|lane| phi[usize::from(chunk[lane] as u16)]);
            sums += floats(counts) * f32x16::new(phi);
        }
        Sums(sums)
    }

    /// Of values.
    #[inline(always)]
    pub(super) fn of(values: &[f32]) -> Sums {
        let mut sums = f32x16::ZERO;
        values.as_chunks::<LANES>().0.iter().for_each(|chunk| sums += f32x16::new(*chunk));
        Sums(sums)
    }

    /// With more in one lane.
    #[inline(always)]
    pub(super) fn plus(self, lane: usize, more: f32) -> Sums {
        let here = f32x16::new(NUMBERS).simd_eq(f32x16::splat(lane as f32));
        Sums(self.0 + (here & f32x16::splat(more)))
    }

    /// The sum of all lanes, in the order in which [`find`](Sums::find) goes through them.
    #[inline(always)]
    pub(super) fn total(self) -> f32 {
        self.columns()[QUARTER - 1]
    }

    /// The sums of each fourth lane, added up from column to column.
    #[inline(always)]
    fn columns(self) -> [f32; QUARTER] {
        let lanes = self.0.to_array();
        let four: [f32; QUARTER] = std::array::from_fn(|q| (lanes[q] + lanes[q + 8]) + (lanes[q + 4] + lanes[q + 12]));
        let two = four[0] + four[1];
        let three = two + four[2];
        [four[0], two, three, three + four[3]]
    }

    /// The lane that a number falls in, and what is left of it there; `of` gives the number from the sum of all lanes.
    #[inline(always)]
    pub(super) fn find(self, of: impl FnOnce(f32) -> f32) -> (usize, f32) {
        let columns = self.columns();
        let drawn = of(columns[QUARTER - 1]);
        let passed = |sums: [f32; 3]| sums.iter().map(|&sum| usize::from(sum <= drawn)).sum::<usize>();
        let column = passed([columns[0], columns[1], columns[2]]);
        let before = if column == 0 { 0.0 } else { columns[column - 1] };
        let lanes = self.0.to_array();
        let first = before + lanes[column];
        let second = first + lanes[column + QUARTER];
        let third = second + lanes[column + 2 * QUARTER];
        let row = passed([first, second, third]);
        (column + QUARTER * row, drawn - [before, first, second, third][row])
    }
}

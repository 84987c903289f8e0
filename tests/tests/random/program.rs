//! Random loops as data: what each iteration does to which element.

use stradsap::Element;

/// A reproducible stream of numbers.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number below `n`, small ones more likely.
    pub(crate) fn twice_below(&mut self, n: usize) -> usize {
        let most = 1 + self.below(n);
        self.below(most)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(crate) const MOST_OPS: usize = 6;

/// One access: to which DDS, at which index, how.
#[derive(Clone, Copy, Debug, Default, Element)]
pub(crate) struct Op {
    pub(crate) dds: u32,
    pub(crate) index: u32,
    pub(crate) kind: u32,
}

pub(crate) const NOTHING: u32 = 0;
pub(crate) const READ: u32 = 1;
pub(crate) const WRITE: u32 = 2;
/// Writes this element and the one at half its index at once.
pub(crate) const PAIR: u32 = 3;
/// Reads an element, and writes where what was read points to: nobody can foresee it.
pub(crate) const INDIRECT: u32 = 4;

/// What one iteration does.
#[derive(Clone, Copy, Debug, Default, Element)]
pub(crate) struct Step {
    pub(crate) ops: [Op; MOST_OPS],
}

/// A whole loop.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) lens: [usize; 4],
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Any element, as likely as any other.
    Uniform,
    /// Few elements often.
    Skewed,
    /// The running iteration's own element, and sometimes a neighbour.
    Stencil,
    /// The running iteration's own element only.
    InStep,
    /// One element always.
    Total,
    /// A user and an item, as in a rating.
    Ratings,
    /// Few of many elements.
    Sparse,
    /// Like uniform, and now and then an access that depends on data.
    Indirect,
}

pub(crate) const SHAPES: [Shape; 8] = [
    Shape::Uniform,
    Shape::Skewed,
    Shape::Stencil,
    Shape::InStep,
    Shape::Total,
    Shape::Ratings,
    Shape::Sparse,
    Shape::Indirect,
];

impl Program {
    pub(crate) fn random(rng: &mut Rng, shape: Shape, most_iterations: usize) -> Program {
        let n = 1 + rng.below(most_iterations);
        let dds = 1 + rng.below(4);
        let ops = 1 + rng.below(MOST_OPS);
        let mut lens = [0; 4];
        for len in &mut lens {
            *len = match shape {
                Shape::Stencil | Shape::InStep => n + 2,
                Shape::Sparse => 20_000,
                _ => 2 + rng.below(4 * n + 2),
            };
        }
        let write_share = 1 + rng.below(6);
        let steps = (0..n)
            .map(|i| {
                let mut step = Step::default();
                for (k, op) in step.ops.iter_mut().take(ops).enumerate() {
                    *op = random_op(rng, shape, i, k, dds, &lens, write_share);
                }
                step
            })
            .collect();
        Program { lens, steps }
    }

    /// Changes some iterations' patterns.
    pub(crate) fn disturb(&mut self, rng: &mut Rng) -> Vec<usize> {
        let n = self.steps.len();
        (0..1 + n / 50)
            .map(|_| {
                let i = rng.below(n);
                let dds = rng.below(4);
                self.steps[i].ops[0] = Op { dds: dds as u32, index: rng.below(self.lens[dds]) as u32, kind: WRITE };
                i
            })
            .collect()
    }
}

fn random_op(rng: &mut Rng, shape: Shape, i: usize, k: usize, dds: usize, lens: &[usize; 4], write_share: usize) -> Op {
    let mut which = rng.below(dds);
    let kind = |rng: &mut Rng| {
        if rng.one_in(8) {
            PAIR
        } else if rng.one_in(write_share) {
            WRITE
        } else {
            READ
        }
    };
    let (index, kind) = match shape {
        Shape::Uniform => (rng.below(lens[which]), kind(rng)),
        Shape::Skewed => {
            let most = 1 + rng.below(lens[which]);
            (rng.twice_below(most), kind(rng))
        }
        Shape::Stencil => {
            let near = rng.below(3);
            (i + near, if near == 1 { WRITE } else { READ })
        }
        Shape::InStep => (i, if rng.one_in(2) { WRITE } else { READ }),
        Shape::Total if k == 0 => (0, WRITE),
        Shape::Total => (rng.below(lens[which]), READ),
        Shape::Ratings if k < 2 => {
            which = k;
            (rng.twice_below(lens[which]), WRITE)
        }
        Shape::Ratings => (0, NOTHING),
        Shape::Sparse => (rng.below(60) * 300, kind(rng)),
        Shape::Indirect if rng.one_in(20) => (rng.below(lens[which]), INDIRECT),
        Shape::Indirect => (rng.below(lens[which]), kind(rng)),
    };
    Op { dds: which as u32, index: index as u32, kind }
}

//! What the driver keeps: coefficients, and what the last rounds told.

use stradsap::Element;

use super::design::Design;
use super::job::{Block, Change, Sums};
use crate::regression::gap::Gap;
use crate::regression::problem::Problem;
use crate::regression::solve::{self, Gram, soft_threshold};

/// The coefficients of the scaled columns, and what is known about them.
#[derive(Debug, Clone, Element)]
pub struct Model {
    /// How strongly coefficients are drawn to 0.
    pub lambda: f64,
    /// A coefficient a column; after them that of the intercept, where it is one.
    pub coefficients: Vec<f64>,
    /// What each column has in common with the residual, as of the last gradient of it.
    pub gradient: Vec<f64>,
    /// Objective and gap as of the last gradient of all columns that count, and of the last of some.
    pub whole: Gap,
    /// See there.
    pub some: Gap,
    /// The largest dual objective so far of all columns that count, for this lambda.
    pub best_dual: f64,
    /// Coefficients that were updated so far.
    pub updates: u64,
    /// The columns of gradients so far.
    pub columns_read: u64,
    /// What the objective fell by in the blocks so far.
    pub fell: f64,
    /// Whether the last round was a whole gradient.
    pub measured: bool,
    /// Whether the last proposed step was of use.
    pub taken: bool,
    /// Coefficients as they were when the quadratic model was made.
    pub base: Vec<f64>,
    known: Known,
}

impl Model {
    /// Of coefficients that are 0, but for an intercept.
    pub fn new(problem: &Problem) -> Model {
        let coefficients: Vec<f64> =
            std::iter::repeat_n(0.0, problem.scaling.len()).chain(problem.free_intercept()).collect();
        Model {
            lambda: 0.0,
            gradient: vec![0.0; coefficients.len()],
            coefficients,
            whole: Gap::default(),
            some: Gap::default(),
            best_dual: f64::NEG_INFINITY,
            updates: 0,
            columns_read: 0,
            fell: 0.0,
            measured: false,
            taken: false,
            base: Vec::new(),
            known: Known::default(),
        }
    }

    /// Another lambda. What is known of the gap is so no more.
    pub fn set_lambda(&mut self, lambda: f64) {
        self.lambda = lambda;
        (self.whole, self.some, self.best_dual) = (Gap::default(), Gap::default(), f64::NEG_INFINITY);
    }

    /// The gap of the last whole gradient, with the best dual objective so far.
    pub fn gap(&self) -> Gap {
        Gap { dual: self.best_dual, ..self.whole }
    }

    /// How many columns of a block have their inner products known.
    pub fn known(&self, block: usize) -> usize {
        self.known.blocks.get(block).map_or(0, Gram::known)
    }

    /// Forgets all inner products.
    pub fn forget(&mut self) {
        self.known.blocks.clear();
    }

    /// Where one coefficient goes, given all others, if its column has so much in common with the residual.
    pub fn target(&self, design: &Design, column: u32, gradient: f64) -> f64 {
        let (curvature, old) = (design.curvature(column), self.coefficients[column as usize]);
        if curvature <= 0.0 {
            return old;
        }
        soft_threshold(old * curvature + gradient, design.penalty(column, self.lambda)) / curvature
    }

    /// One coefficient's step of coordinate descent; `sum` is what its column, as it is stored, has in common with the residual.
    pub fn step(&mut self, design: &Design, column: u32, sum: f64) -> Change {
        let new = self.target(design, column, design.shifted(column, sum));
        self.updates += 1;
        Change::One(new - std::mem::replace(&mut self.coefficients[column as usize], new))
    }

    /// Takes note of a gradient. Gives the largest, what coefficients and gradient have in common, and the coefficients' norm,
    /// all without the intercept.
    pub fn look(&mut self, design: &Design, columns: &[u32], sums: &[f64]) -> (f64, f64, f64) {
        let (mut largest, mut shared, mut norm) = (0.0f64, 0.0, 0.0);
        for (&column, &sum) in columns.iter().zip(sums) {
            let gradient = design.shifted(column, sum);
            self.gradient[column as usize] = gradient;
            if design.intercept() != Some(column) {
                let b = self.coefficients[column as usize];
                largest = largest.max(gradient.abs());
                shared += b * gradient;
                norm += b.abs();
            }
        }
        self.columns_read += columns.len() as u64;
        (largest, shared, norm)
    }

    /// Takes note of a gap: of all columns that count, or of some.
    pub fn saw(&mut self, gap: Gap, whole: bool) {
        *if whole { &mut self.whole } else { &mut self.some } = gap;
        if whole {
            self.best_dual = self.best_dual.max(gap.dual);
        }
    }

    /// Coordinate descent within a block, from the sums over its columns.
    pub fn solve(&mut self, design: &Design, block: &Block, sums: &Sums) -> Change {
        let mut known = block.number.map_or_else(Gram::default, |number| self.known.take(number as usize));
        if block.known == 0 {
            known = Gram::with_room((block.room as usize).max(block.columns.len()));
        }
        let mut rest = &sums.gram[..];
        for k in block.known as usize..block.columns.len() {
            let (row, others) = rest.split_at(k + 1);
            rest = others;
            let own = design.shift(block.columns[k]) * design.rows();
            known.push(row.iter().zip(&block.columns).map(|(product, &other)| product - own * design.shift(other)));
        }
        let with_sums = block.columns.iter().zip(&sums.gradient);
        let mut gradient: Vec<f64> = with_sums.map(|(&column, &sum)| design.shifted(column, sum)).collect();
        let old: Vec<f64> = block.columns.iter().map(|&column| self.coefficients[column as usize]).collect();
        let mut new = old.clone();
        let free = block.columns.iter().position(|&column| design.intercept() == Some(column)).unwrap_or(new.len());
        match block.passes {
            Some(passes) => {
                for _ in 0..passes {
                    self.updates += new.len() as u64;
                    self.fell += solve::sweep(&known, &mut gradient, &mut new, self.lambda, free);
                }
            }
            None => {
                let (gap, passes) = solve::to_gap(&known, &mut gradient, &mut new, self.lambda, sums.sum, block.goal);
                self.updates += passes * new.len() as u64;
                self.some = gap;
            }
        }
        for (&column, &b) in block.columns.iter().zip(&new) {
            self.coefficients[column as usize] = b;
        }
        if let Some(number) = block.number {
            self.known.blocks[number as usize] = known;
        }
        new.iter_mut().zip(&old).for_each(|(b, old)| *b -= old);
        Change::Steps(new)
    }
}

/// Inner products. They follow from the data, so that a clone, which is kept in case that something fails, needs none.
#[derive(Debug, Default, Element)]
struct Known {
    blocks: Vec<Gram>,
}

impl Known {
    /// What is known of a block, to be put back.
    fn take(&mut self, block: usize) -> Gram {
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Gram::default);
        }
        std::mem::take(&mut self.blocks[block])
    }
}

impl Clone for Known {
    fn clone(&self) -> Known {
        Known::default()
    }
}

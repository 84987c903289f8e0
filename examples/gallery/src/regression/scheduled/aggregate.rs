//! What `aggregate` makes of the sums over the parts.

use super::job::{Block, Change};
use super::model::Model;
use super::program::Regression;
use crate::regression::Loss;
use crate::regression::gap::Gap;
use crate::regression::solve::{self, Gram};

impl Regression {
    pub(super) fn aggregate_gradient(&self, columns: &[u32], whole: bool, sum: f64, sums: &[f64], model: &mut Model) {
        let (mut largest, mut shared, mut norm) = (0.0f64, 0.0, 0.0);
        for (&column, &sum) in columns.iter().zip(sums) {
            let column = column as usize;
            let gradient = self.shifted(column, sum);
            model.gradient[column] = gradient;
            if column < self.columns() {
                let b = model.coefficients[column];
                largest = largest.max(gradient.abs());
                shared += b * gradient;
                norm += b.abs();
            }
        }
        model.columns_read += columns.len() as u64;
        let gap = match self.loss() {
            Loss::Square => Gap::of_lasso(model.lambda, sum, shared, norm, largest),
            // The dual objective needs another round.
            Loss::Logistic => Gap {
                primal: sum + model.lambda * norm,
                dual: f64::NEG_INFINITY,
                scale: if largest > model.lambda { model.lambda / largest } else { 1.0 },
            },
        };
        *if whole { &mut model.whole } else { &mut model.some } = gap;
        if whole {
            model.best_dual = model.best_dual.max(gap.dual);
            model.measured = self.loss() == Loss::Square;
        }
    }

    pub(super) fn aggregate_block(
        &self,
        block: &Block,
        sum: f64,
        sums: &[f64],
        gram: &[f64],
        model: &mut Model,
    ) -> Change {
        let mut known = block.number.map_or_else(Gram::default, |number| model.known.take(number as usize));
        if block.known == 0 {
            known = Gram::with_room((block.room as usize).max(block.columns.len()));
        }
        let shift = |column: u32| self.shift(column as usize);
        let mut rest = gram;
        for k in block.known as usize..block.columns.len() {
            let (row, others) = rest.split_at(k + 1);
            rest = others;
            let own = shift(block.columns[k]) * self.rows();
            known.push(row.iter().zip(&block.columns).map(|(product, &other)| product - own * shift(other)));
        }
        let mut gradient: Vec<f64> =
            block.columns.iter().zip(sums).map(|(&column, &sum)| self.shifted(column as usize, sum)).collect();
        let old: Vec<f64> = block.columns.iter().map(|&column| model.coefficients[column as usize]).collect();
        let mut new = old.clone();
        let columns = self.columns() as u32;
        let free = block.columns.iter().position(|&column| column == columns).unwrap_or(new.len());
        match block.passes {
            Some(passes) => {
                for _ in 0..passes {
                    model.updates += new.len() as u64;
                    model.fell += solve::sweep(&known, &mut gradient, &mut new, model.lambda, free);
                }
            }
            None => {
                let (gap, passes) = solve::to_gap(&known, &mut gradient, &mut new, model.lambda, sum, block.goal);
                model.updates += passes * new.len() as u64;
                model.some = gap;
            }
        }
        for (&column, &b) in block.columns.iter().zip(&new) {
            model.coefficients[column as usize] = b;
        }
        if let Some(number) = block.number {
            model.known.blocks[number as usize] = known;
        }
        new.iter_mut().zip(&old).for_each(|(b, old)| *b -= old);
        Change::Steps(new)
    }

    /// The sums of the parts: `|X d|²` and `r.(X d)`, both of shifted columns.
    pub(super) fn aggregate_move(
        &self,
        columns: &[u32],
        steps: &[f64],
        [square, common]: [f64; 2],
        model: &mut Model,
    ) -> Change {
        let mut change = 0.5 * square - common;
        for (&column, step) in columns.iter().zip(steps) {
            let b = model.coefficients[column as usize];
            change += self.penalty(column as usize, model.lambda) * ((b + step).abs() - b.abs());
        }
        model.taken = change < 0.0;
        if !model.taken {
            return Change::None;
        }
        for (&column, step) in columns.iter().zip(steps) {
            model.coefficients[column as usize] += step;
        }
        Change::Taken(1.0)
    }

    pub(super) fn aggregate_search(&self, part: f64, loss: f64, model: &mut Model) -> Change {
        let towards = |base: f64, there: f64| base + part * (there - base);
        let pairs = model.base.iter().zip(&model.coefficients);
        let tried: Vec<f64> = pairs.map(|(&base, &there)| towards(base, there)).collect();
        let objective = loss + model.lambda * self.norm(&tried);
        let before = model.some.primal;
        // A part of what the quadratic model promises at least; near the end rounding hides it.
        model.taken = objective <= before - 0.01 * part * model.fell + 1e-15 * before.abs();
        if model.taken {
            model.coefficients = tried;
            model.some = Gap { primal: objective, ..model.some };
            Change::Taken(part)
        } else {
            Change::None
        }
    }
}

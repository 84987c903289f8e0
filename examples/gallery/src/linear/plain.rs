//! The training loops of the sequential program.

use super::{Loss, dot};
use crate::libsvm::Examples;

/// Weights on their way: `w = scale v`.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// A value a feature.
    pub v: Vec<f64>,
    /// What they are multiplied by.
    pub scale: f64,
    /// Steps so far.
    pub steps: f64,
}

impl Model {
    /// Of zero weights.
    pub fn new(features: usize) -> Model {
        Model { v: vec![0.0; features], scale: 1.0, steps: 0.0 }
    }

    /// The square of the weights' length.
    pub fn squares(&self) -> f64 {
        self.v.iter().fold(0.0, |sum, v| sum + (self.scale * v) * (self.scale * v))
    }
}

/// One pass of stochastic gradient descent: a step an example, the rate of step t (from 0) being
/// `eta0 / (1 + lambda eta0 t)`. The scale is then `1 / (1 + lambda eta0 t)`, a function of t alone.
pub fn sgd(model: &mut Model, train: &Examples, loss: Loss, lambda: f64, eta0: f64) {
    for (label, values) in train.iter() {
        let label = f64::from(label);
        let z = label * dot(values, &model.v) / (1.0 + lambda * eta0 * model.steps);
        let step = eta0 * loss.slope(z) * label;
        if step != 0.0 {
            for f in values {
                model.v[f.index as usize] += step * f64::from(f.value);
            }
        }
        model.steps += 1.0;
    }
    model.scale = 1.0 / (1.0 + lambda * eta0 * model.steps);
}

/// One pass of gradient descent: a step for each `minibatch` examples, on the mean of their gradients, the rate of step t
/// (from 1) being `eta0 / sqrt(t)`, as MLlib has it.
pub fn gradient_descent(model: &mut Model, train: &Examples, loss: Loss, lambda: f64, eta0: f64, minibatch: usize) {
    let mut examples = train.iter();
    while examples.len() > 0 {
        let batch = examples.by_ref().take(minibatch);
        let slopes = batch.map(|(label, values)| {
            let label = f64::from(label);
            (loss.slope(label * dot(values, &model.v) * model.scale) * label, values)
        });
        let slopes: Vec<_> = slopes.collect();
        let eta = eta0 / (1.0 + model.steps).sqrt();
        let share = eta / (model.scale * slopes.len() as f64);
        for (slope, values) in slopes {
            if slope != 0.0 {
                for f in values {
                    model.v[f.index as usize] += share * slope * f64::from(f.value);
                }
            }
        }
        model.scale += model.scale / (1.0 + lambda * eta) - model.scale;
        model.steps += 1.0;
    }
}

//! The first learning rate, where the command line gives none: the one that does best on a sample, as in Bottou's
//! "Stochastic gradient descent tricks", section 5.2.

use std::ops::RangeInclusive;

use super::{Loss, Model, dot, gradient_descent, sgd};
use crate::libsvm::Examples;

/// Examples that are passed once with each rate; in a random order the first are a sample. Fewer ask for larger steps than
/// suit a whole pass.
const STEPS: usize = 10_000;
/// Examples whose mean gradient is followed with each rate, and how often.
const GRADIENTS: (usize, usize) = (1000, 20);
/// Rates that are tried: powers of two around the inverse of the examples' mean square length.
const POWERS: RangeInclusive<i32> = -10..=10;

/// The rate for stochastic gradient descent: one pass over the sample with each.
pub fn choose_for_sgd(train: &Examples, features: usize, loss: Loss, lambda: f64) -> f64 {
    let sample = train.first(STEPS);
    best(&sample, features, loss, lambda, |model, eta0| sgd(model, &sample, loss, lambda, eta0))
}

/// The rate for gradient descent: some steps on the gradient of the whole sample with each.
pub fn choose_for_gradients(train: &Examples, features: usize, loss: Loss, lambda: f64) -> f64 {
    let (examples, steps) = GRADIENTS;
    let sample = train.first(examples);
    best(&sample, features, loss, lambda, |model, eta0| {
        for _ in 0..steps {
            gradient_descent(model, &sample, loss, lambda, eta0, sample.len());
        }
    })
}

fn best(sample: &Examples, features: usize, loss: Loss, lambda: f64, train: impl Fn(&mut Model, f64)) -> f64 {
    let squares = sample.iter().flat_map(|(_, values)| values).map(|f| f64::from(f.value).powi(2)).sum::<f64>();
    let unit = if squares > 0.0 { sample.len() as f64 / squares } else { 1.0 };
    let tried = POWERS.map(|power| {
        let eta0 = unit * 2f64.powi(power);
        let mut model = Model::new(features);
        train(&mut model, eta0);
        let losses = sample.iter().map(|(label, x)| loss.value(f64::from(label) * dot(x, &model.v) * model.scale));
        (losses.sum::<f64>() / sample.len() as f64 + lambda / 2.0 * model.squares(), eta0)
    });
    let finite = tried.filter(|(objective, _)| objective.is_finite());
    finite.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(unit, |(_, eta0)| eta0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Points on a line, parted at 0, in units of `unit`.
    fn line(unit: f32) -> Examples {
        let text: String = (0..200)
            .map(|n| {
                let x = (n * 37 % 200) as f32 / 100.0 - 0.995;
                format!("{} 1:{}\n", x.signum(), x * unit)
            })
            .collect();
        Examples::parse(Path::new("line"), text.as_bytes(), None).unwrap()
    }

    #[test]
    fn rates_go_with_the_unit_of_the_features() {
        for choose in [choose_for_sgd, choose_for_gradients] {
            let rate = |unit| choose(&line(unit), 1, Loss::Hinge, 0.0);
            let (one, thousand) = (rate(1.0), rate(1024.0));
            assert!((one / thousand / 1048576.0 - 1.0).abs() < 1e-3, "{one} and {thousand}");
        }
    }
}

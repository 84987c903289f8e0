//! What is measured after each epoch.

use serde::{Deserialize, Serialize};
use stradsap_examples::model::DataSize;
use stradsap_examples::ratings::Rating;
use stradsap_examples::run::Measures;

use super::{Factors, Pull};

/// Errors after an epoch.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SquaredError {
    /// The sum of the squared errors over the training ratings, and that of the squared distances from the centre, times
    /// lambda: what is minimised.
    pub regularised: f64,
    /// Root-mean-square error over the training ratings.
    pub train_rmse: f64,
    /// The same over the test ratings; absent when there are none.
    pub test_rmse: Option<f64>,
}

impl SquaredError {
    /// From the sum of the squared errors over the training ratings.
    pub fn of(size: &DataSize, factors: &Factors, squares: f64, test: &[Rating]) -> SquaredError {
        let Pull { lambda, users, items } = factors.pull;
        let from = |centre: f32| move |x: &f32| (f64::from(*x) - f64::from(centre)).powi(2);
        let distances: f64 = factors.w.iter().map(from(users)).chain(factors.h.iter().map(from(items))).sum();
        let tested: f64 = test.iter().map(|r| (f64::from(r.stars) - factors.predict(r.user, r.item)).powi(2)).sum();
        SquaredError {
            regularised: squares + lambda * distances,
            train_rmse: (squares / size.train as f64).sqrt(),
            test_rmse: (size.test > 0).then(|| (tested / size.test as f64).sqrt()),
        }
    }
}

impl Measures for SquaredError {
    const AXIS: &'static str = "RMSE (rating units)";
    const ADVICE: &'static str = "try a larger --regularisation";

    fn objective(&self) -> f64 {
        self.regularised
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        let test = self.test_rmse.map(|rmse| ("test RMSE", rmse));
        [("training RMSE", self.train_rmse)].into_iter().chain(test).collect()
    }
}

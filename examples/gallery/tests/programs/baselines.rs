//! What the factorisations reach with their defaults, beside what needs no factors: the mean rating, and biases.

#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use stradsap_examples::data::default_ratings;
use stradsap_examples::ratings::{Rating, Ratings};

use crate::common::report;

fn rmse(test: &[Rating], predict: impl Fn(&Rating) -> f64) -> f64 {
    let squares = test.iter().map(|r| (f64::from(r.stars) - predict(r)).powi(2));
    (squares.sum::<f64>() / test.len() as f64).sqrt()
}

/// The mean, and biases of users and items that are pulled towards 0 as by `pull` ratings of that.
fn biases(train: &[Rating], users: usize, items: usize, pull: f64) -> (f64, Vec<f64>, Vec<f64>) {
    let mean = train.iter().map(|r| f64::from(r.stars)).sum::<f64>() / train.len() as f64;
    let (mut of_users, mut of_items) = (vec![0.0; users], vec![0.0; items]);
    let fit = |biases: &mut Vec<f64>, own: &dyn Fn(&Rating) -> usize, other: &dyn Fn(&Rating) -> f64| {
        let mut sums = vec![[0.0, pull]; biases.len()];
        for r in train {
            let [left, count] = &mut sums[own(r)];
            (*left, *count) = (*left + f64::from(r.stars) - mean - other(r), *count + 1.0);
        }
        *biases = sums.into_iter().map(|[left, count]| left / count).collect();
    };
    for _ in 0..15 {
        fit(&mut of_items, &|r| r.item as usize, &|r| of_users[r.user as usize]);
        fit(&mut of_users, &|r| r.user as usize, &|r| of_items[r.item as usize]);
    }
    (mean, of_users, of_items)
}

#[test]
fn factors_predict_better_than_biases() {
    let path = default_ratings().unwrap();
    let mut ratings = Ratings::read(&path).unwrap();
    ratings.renumber(1);
    let split = ratings.split(&path, 1, 0.1).unwrap();
    let (mean, users, items) = biases(&split.train, ratings.users.len(), ratings.items.len(), 3.0);
    let by_mean = rmse(&split.test, |_| mean);
    let by_biases = rmse(&split.test, |r| mean + users[r.user as usize] + items[r.item as usize]);
    assert!(by_biases < 1.25 && by_biases < by_mean - 0.3, "{by_biases} {by_mean}");
    for (program, options) in [("sgdmf", &[][..]), ("ccdmf", &[]), ("ccdmf", &["--order", "feature"])] {
        let report = report(program, options);
        let epochs = report["epochs"].as_array().unwrap();
        let of =
            |name: &str| -> Vec<f64> { epochs.iter().map(|epoch: &Value| epoch[name].as_f64().unwrap()).collect() };
        let test = of("test_rmse");
        let (reached, least) = (*test.last().unwrap(), test.iter().copied().fold(f64::INFINITY, f64::min));
        assert!(reached < by_biases - 0.03, "{program}: {reached}, and biases {by_biases}");
        // No overfitting: the test error is as low at the end as it ever was.
        assert!(reached < least + 0.002, "{program}: {test:?}");
    }
}

//! A recommender with biases: a rating is the mean, what the user adds to it, what the item adds, and the product of two rows.
//! `cargo run --release --example biases` learns from the repository's ratings; another file may be named on the command line.

#![allow(clippy::print_stdout, reason = "what the program finds")]

use serde::{Deserialize, Serialize};
use stradsap::kernels::dot;
use stradsap::prelude::*;

const RANK: usize = 8;
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/anime-ratings.tsv.gz");

#[derive(Clone, Copy, Deserialize, Element)]
struct Rating {
    #[serde(rename = "User_ID")]
    user: u32,
    #[serde(rename = "Anime_ID")]
    item: u32,
    #[serde(rename = "Feedback")]
    stars: f32,
}

/// What is learnt of a user or an item.
#[derive(Clone, Copy, Serialize, Deserialize, Element)]
struct Factors {
    bias: f32,
    row: [f32; RANK],
}

/// The rating that is expected.
fn predict(mean: f32, user: &Factors, item: &Factors) -> f32 {
    mean + user.bias + item.bias + dot(&user.row, &item.row)
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| DATA.to_owned());
    let ratings = session.read_csv::<Rating>(path)?;
    let (train, test) = ratings.split(0.9, 1)?;
    let users = ratings.map(|r| r.user + 1).reduce(u32::max)?.unwrap_or(0) as usize;
    let items = ratings.map(|r| r.item + 1).reduce(u32::max)?.unwrap_or(0) as usize;
    let sum = train.map(|r| f64::from(r.stars)).fold(0.0, |sum, x| sum + x, |a, b| a + b)?;
    let mean = (sum / train.len() as f64) as f32;

    let noise = session.rng(0);
    let number = |i: usize, k: usize| 0.2 * (noise.unit((i * RANK + k) as u64) - 0.5);
    let start = |i| Factors { bias: 0.0, row: std::array::from_fn(|k| number(i, k)) };
    let mut p = DVector::from_fn(session, users, start)?;
    let mut q = DVector::from_fn(session, items, |i| start(users + i))?;
    let (rate, pull) = (0.01, 0.05);
    for epoch in 1..=20 {
        let squares = session.sum(0.0f64);
        async_parallel_for!(0..train.len(), [rate, pull, mean, &train, &mut p, &mut q, &squares], |n| {
            let Rating { user, item, stars } = train[n];
            let (u, i) = (&mut p[user], &mut q[item]);
            let error = stars - predict(mean, u, i);
            u.bias += rate * (error - pull * u.bias);
            i.bias += rate * (error - pull * i.bias);
            for (a, b) in u.row.iter_mut().zip(&mut i.row) {
                (*a, *b) = (*a + rate * (error * *b - pull * *a), *b + rate * (error * *a - pull * *b));
            }
            squares.add(f64::from(error * error));
        })?;
        let errors = with!([mean, &p, &q], test.map(|r| f64::from(r.stars - predict(mean, &p[r.user], &q[r.item]))));
        let tested = errors.map(|error| error * error).fold(0.0, |sum, x| sum + x, |a, b| a + b)?;
        let root_mean = |sum: f64, count: usize| (sum / count as f64).sqrt();
        let (training, test) = (root_mean(squares.get(), train.len()), root_mean(tested, test.len()));
        println!("epoch {epoch:2}: training RMSE {training:.4}, test RMSE {test:.4}");
    }

    // What the first user would like best of what that user hasn't rated.
    let user = ratings.get(0)?.user;
    let me = p.get(user as usize)?;
    let seen = with!([user], ratings.filter(|r| r.user == user)).map(|r| r.item).to_vec()?;
    let unseen = with!([seen], q.enumerate().filter(|(item, _)| !seen.contains(&(*item as u32))));
    let scored = with!([mean, me], unseen.map(|(item, factors)| (*item, predict(mean, &me, factors))));
    for (item, stars) in scored.top_k(5, |(_, stars)| Ordered(*stars))? {
        println!("user {user} may like item {item}: {stars:.2} stars");
    }
    println!("model {}", Digest::new().matrix(p.iter()?.map(|f| f.row)).matrix(q.iter()?.map(|f| f.row)));
    Ok(())
}

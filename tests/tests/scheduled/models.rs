//! The ready-made schedules at work: what they come to is known from elsewhere.

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Block, Pick};

use crate::common::{below, mix};
use crate::seen::Seen;

fn unit(k: u64) -> f64 {
    (mix(k) >> 11) as f64 / (1u64 << 53) as f64
}

// Lasso by coordinate descent, on the dynamic schedule.

const COLUMNS: usize = 24;
const ROWS: usize = 50;
const LAMBDA: f64 = 0.05;

/// Columns of norm 1, each correlated with its neighbour.
fn columns() -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> =
        (0..COLUMNS as u64).map(|j| (0..ROWS as u64).map(|i| unit(j * 1000 + i) - 0.5).collect()).collect();
    for j in (1..COLUMNS).step_by(2) {
        let twin = columns[j - 1].clone();
        columns[j].iter_mut().zip(twin).for_each(|(x, other)| *x = 0.8 * *x + other);
    }
    for column in &mut columns {
        let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        column.iter_mut().for_each(|x| *x /= norm);
    }
    columns
}

fn target(columns: &[Vec<f64>]) -> Vec<f64> {
    (0..ROWS).map(|i| 2.0 * columns[3][i] - columns[10][i] + columns[11][i] + 0.1 * unit(i as u64 + 77)).collect()
}

fn soft(x: f64) -> f64 {
    x.signum() * (x.abs() - LAMBDA).max(0.0)
}

fn objective(columns: &[Vec<f64>], y: &[f64], beta: &[f64]) -> f64 {
    let residual = |i: usize| y[i] - beta.iter().zip(columns).map(|(b, x)| b * x[i]).sum::<f64>();
    0.5 * (0..ROWS).map(|i| residual(i).powi(2)).sum::<f64>() + LAMBDA * beta.iter().map(|b| b.abs()).sum::<f64>()
}

#[derive(Serialize, Deserialize)]
struct Lasso;

impl Program for Lasso {
    /// Some rows of each column.
    type Shard = Vec<Vec<f64>>;
    type Local = Vec<f64>;
    type Model = Vec<f64>;
    type Job = usize;
    type Partial = f64;
    type Change = f64;

    fn update(&self, &j: &usize, columns: &Vec<Vec<f64>>, residual: &Vec<f64>) -> f64 {
        columns[j].iter().zip(residual).map(|(x, r)| x * r).sum()
    }
    fn aggregate(&self, &j: &usize, partials: Partials<'_, f64>, beta: &mut Vec<f64>) -> f64 {
        let step = soft(beta[j] + partials.sum::<f64>()) - beta[j];
        beta[j] += step;
        step
    }
    fn apply(&self, &j: &usize, step: &f64, columns: &Vec<Vec<f64>>, residual: &mut Vec<f64>) {
        columns[j].iter().zip(residual).for_each(|(x, r)| *r -= x * step);
    }
}

pub(crate) fn lasso(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let columns = columns();
    let y = target(&columns);
    // Plain cyclic coordinate descent to the end.
    let (mut best, mut residual) = (vec![0.0; COLUMNS], y.clone());
    for _ in 0..5000 {
        let mut longest = 0.0f64;
        for j in 0..COLUMNS {
            let g: f64 = columns[j].iter().zip(&residual).map(|(x, r)| x * r).sum();
            let step = soft(best[j] + g) - best[j];
            best[j] += step;
            columns[j].iter().zip(&mut residual).for_each(|(x, r)| *r -= x * step);
            longest = longest.max(step.abs());
        }
        if longest < 1e-13 {
            break;
        }
    }
    let best = objective(&columns, &y, &best);
    let cuts = [0, 13, 20, 41, ROWS];
    let part = |column: &Vec<f64>, s: usize| column[cuts[s]..cuts[s + 1]].to_vec();
    let shards = DVector::from_fn(session, 4, |s| columns.iter().map(|column| part(column, s)).collect::<Vec<_>>())?;
    let correlation = |a: usize, b: usize| columns[a].iter().zip(&columns[b]).map(|(x, y)| x * y).sum::<f64>();
    for (name, pick, rho, depth, width) in [
        ("priority+dependency", Pick::Priority, 0.3, 1, 4),
        ("priority+dependency", Pick::Priority, 0.3, 2, 4),
        ("priority+dependency", Pick::Priority, 0.3, 4, 2),
        ("priority", Pick::Priority, f64::INFINITY, 1, 2),
        ("random+dependency", Pick::Random, 0.3, 3, 3),
        ("random", Pick::Random, f64::INFINITY, 1, 1),
        ("cyclic", Pick::Cyclic, f64::INFINITY, 1, 1),
    ] {
        let mut left = DVector::from_fn(session, 4, |s| part(&y, s))?;
        let mut schedule = schedule_dyn_regr(COLUMNS, width).seed(5).pick(pick).uncorrelated(rho, correlation);
        let mut beta = vec![0.0; COLUMNS];
        let mut jobs = 0;
        for epoch in 0..8 {
            if epoch > 0 && pick == Pick::Priority {
                // As a program does that has just computed a full gradient.
                let residual: Vec<f64> = left.to_vec()?.concat();
                let gradient = |j: usize| columns[j].iter().zip(&residual).map(|(x, r)| x * r).sum::<f64>();
                let steps: Vec<f64> = (0..COLUMNS).map(|j| soft(beta[j] + gradient(j)) - beta[j]).collect();
                schedule.set_priorities(|j| steps[j]);
            }
            let call = scheduled(session, &Lasso).pipeline(depth);
            jobs += call.run(&mut schedule, &mut beta, &shards, &mut left, 350)?.jobs();
        }
        let gap = objective(&columns, &y, &beta) - best;
        assert!((-1e-12..1e-7).contains(&gap), "{name}, depth {depth}: {gap:e} above the optimum after {jobs} updates");
        seen.record(name, (depth, jobs, schedule.dropped(), beta.iter().map(|b| b.to_bits()).collect::<Vec<_>>()));
        seen.digest("left", &left)?;
    }
    Ok(())
}

// Counting words by a rotation.

#[derive(Serialize, Deserialize)]
struct Counting {
    shards: usize,
}

impl Program for Counting {
    /// The words of some documents.
    type Shard = Vec<u32>;
    /// How many words it has counted, and how large its last block was.
    type Local = [u64; 2];
    type Model = Vec<u64>;
    type Job = Block;
    type Partial = Vec<(u32, u64)>;
    type Change = u64;

    fn update(&self, block: &Block, words: &Vec<u32>, _: &[u64; 2]) -> Vec<(u32, u64)> {
        let own = |&&word: &&u32| block.parameters().contains(&(word as usize));
        words.iter().filter(own).map(|&word| (word, 1)).collect()
    }
    fn aggregate(&self, block: &Block, partials: Partials<'_, Vec<(u32, u64)>>, counts: &mut Vec<u64>) -> u64 {
        assert_eq!(partials.len(), 1);
        let mut words = 0;
        for (word, n) in partials.flatten() {
            assert!(block.parameters().contains(&(word as usize)));
            counts[word as usize] += n;
            words += n;
        }
        words
    }
    fn apply(&self, block: &Block, words: &u64, _: &Vec<u32>, local: &mut [u64; 2]) {
        *local = [local[0] + words, block.parameters().len() as u64];
    }
    fn updated_on(&self, block: &Block) -> Shards {
        Shards::One(block.shard)
    }
    fn applied_to(&self, block: &Block) -> Shards {
        Shards::One(block.next_shard(self.shards))
    }
    fn weight(&self, block: &Block, words: &Vec<u32>) -> u64 {
        (block.parameters().len() * words.len()) as u64
    }
}

pub(crate) fn rotation(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for (parts, vocabulary) in [(5, 47), (3, 2), (1, 10), (8, 8)] {
        let words = |s: usize| (0..200 + 10 * s as u64).map(|k| below(mix(s as u64) ^ k, vocabulary) as u32).collect();
        let data: Vec<Vec<u32>> = (0..parts).map(words).collect();
        let mut plain = vec![0u64; vocabulary];
        data.iter().flatten().for_each(|&word| plain[word as usize] += 1);
        let shards = DVector::from_vec(session, data)?;
        for depth in 1..=3 {
            let mut locals = DVector::from_fn(session, parts, |_| [0u64; 2])?;
            let (mut counts, program) = (vec![0; vocabulary], Counting { shards: parts });
            let mut schedule = schedule_static_rota(vocabulary, parts);
            for rotation in 1..=2 {
                let rounds = schedule.rotation();
                scheduled(session, &program).pipeline(depth).run(
                    &mut schedule,
                    &mut counts,
                    &shards,
                    &mut locals,
                    rounds,
                )?;
                let times = |n: &u64| n * rotation;
                assert_eq!(counts, plain.iter().map(times).collect::<Vec<_>>(), "every word once a rotation");
            }
            assert_eq!(locals.iter()?.map(|[words, _]| words).sum::<u64>(), 2 * plain.iter().sum::<u64>());
            seen.digest("locals", &locals)?;
        }
    }
    Ok(())
}

// Matrix factorisation by cyclic coordinate descent, round by round (STRADS, supplement).

const RANK: usize = 3;
const ITEMS: usize = 17;
const REGULARISED: f64 = 0.1;

/// What is left of some rows, their side of the factors, and a copy of the other side.
#[derive(Clone, Debug, Element)]
struct Factors {
    left: Vec<Vec<f64>>,
    w: Vec<[f64; RANK]>,
    h: Vec<Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct Ccd;

impl Program for Ccd {
    type Shard = u8;
    type Local = Factors;
    type Model = Vec<Vec<f64>>;
    /// Twice the rank: the rows' side, then the items'.
    type Job = usize;
    type Partial = Vec<[f64; 2]>;
    type Change = Vec<f64>;

    fn update(&self, &job: &usize, _: &u8, local: &Factors) -> Vec<[f64; 2]> {
        let k = job / 2;
        if job.is_multiple_of(2) {
            return Vec::new();
        }
        let mut sums = vec![[0.0; 2]; ITEMS];
        for (row, w) in local.left.iter().zip(&local.w) {
            for (j, sum) in sums.iter_mut().enumerate() {
                sum[0] += (row[j] + w[k] * local.h[k][j]) * w[k];
                sum[1] += w[k] * w[k];
            }
        }
        sums
    }
    fn aggregate(&self, &job: &usize, partials: Partials<'_, Vec<[f64; 2]>>, h: &mut Vec<Vec<f64>>) -> Vec<f64> {
        if job.is_multiple_of(2) {
            return Vec::new();
        }
        let mut sums = vec![[0.0; 2]; ITEMS];
        partials
            .for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| (0..2).for_each(|c| sum[c] += part[c])));
        h[job / 2] = sums.iter().map(|[a, b]| a / (REGULARISED + b)).collect();
        h[job / 2].clone()
    }
    fn apply(&self, &job: &usize, fresh: &Vec<f64>, _: &u8, local: &mut Factors) {
        let k = job / 2;
        let h = &mut local.h[k];
        for (row, w) in local.left.iter_mut().zip(&mut local.w) {
            let old = (w[k], h.clone());
            if job.is_multiple_of(2) {
                let dot: f64 = row.iter().zip(&*h).map(|(r, h)| (r + w[k] * h) * h).sum();
                w[k] = dot / (REGULARISED + h.iter().map(|h| h * h).sum::<f64>());
            }
            let new = if job.is_multiple_of(2) { h.as_slice() } else { fresh.as_slice() };
            row.iter_mut().enumerate().for_each(|(j, r)| *r += old.0 * old.1[j] - w[k] * new[j]);
        }
        if job % 2 == 1 {
            h.clone_from(fresh);
        }
    }
}

fn loss(locals: &[Factors], h: &[Vec<f64>]) -> f64 {
    let square = |x: &f64| x * x;
    let left: f64 = locals.iter().flat_map(|local| local.left.iter().flatten()).map(square).sum();
    let w: f64 = locals.iter().flat_map(|local| local.w.iter().flatten()).map(square).sum();
    left + REGULARISED * (w + h.iter().flatten().map(square).sum::<f64>())
}

pub(crate) fn factorisation(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let h: Vec<Vec<f64>> = (0..RANK as u64).map(|k| (0..ITEMS as u64).map(|j| unit(k * 100 + j)).collect()).collect();
    let rows = |s: usize| 3 + 2 * s as u64;
    let value = |s: usize, i: u64, j: u64| unit(i * 3 + j * 7 + s as u64) * unit(j) + unit(i);
    let first = |s: usize| Factors {
        left: (0..rows(s)).map(|i| (0..ITEMS as u64).map(|j| value(s, i, j)).collect()).collect(),
        w: vec![[0.0; RANK]; rows(s) as usize],
        h: h.clone(),
    };
    let shards = DVector::from_fn(session, 4, |s| s as u8)?;
    let mut locals = DVector::from_fn(session, 4, first)?;
    let (mut model, mut schedule, mut last) = (h.clone(), schedule_round_robin(2 * RANK, 1), f64::MAX);
    for epoch in 0..12 {
        scheduled(session, &Ccd).run(&mut schedule, &mut model, &shards, &mut locals, 2 * RANK)?;
        let now = loss(&locals.to_vec()?, &model);
        // Exact minimisation of one block after the other never goes up.
        assert!(now <= last * (1.0 + 1e-12), "epoch {epoch}: {last} became {now}");
        last = now;
        seen.record("loss", now.to_bits());
    }
    for (s, local) in locals.iter()?.enumerate() {
        for (i, row) in local.left.iter().enumerate() {
            for (j, &r) in row.iter().enumerate() {
                let model: f64 = (0..RANK).map(|k| local.w[i][k] * model[k][j]).sum();
                assert!((value(s, i as u64, j as u64) - model - r).abs() < 1e-12, "what is left is what is left");
            }
        }
    }
    assert!(last < 0.2 * loss(&(0..4).map(first).collect::<Vec<_>>(), &h), "{last}");
    Ok(())
}

//! What a document's topics are, given those of words: coordinate ascent on the bound of the document's likelihood.

use super::{Document, LANES, Lane, Probe, Settings, exp_digamma};

/// The document's topics are good enough when they change by this much on average, in words.
const TOLERANCE: f32 = 1e-3;
/// How often they are improved at the most.
const MOST_ROUNDS: usize = 100;

/// Infers one document's topics after the other's. It keeps its memory for the next.
#[derive(Debug)]
pub struct Inference {
    settings: Settings,
    /// For each topic `words / exp(digamma(the sum of lambda))`: 0 beyond the last topic.
    norm: Vec<Lane>,
    /// For each of the document's words in turn `exp(E[log beta])` of each topic, all times a constant.
    beta: Vec<Lane>,
    counts: Vec<f32>,
    /// For each of the document's words its count over the sum over topics of `theta * beta`.
    shares: Vec<f32>,
    /// `exp(E[log theta])` times a constant.
    theta: Vec<Lane>,
    /// The parameters of the document's Dirichlet distribution, without their prior.
    gamma: Vec<Lane>,
    found: Vec<Lane>,
}

impl Inference {
    pub(super) fn new(settings: Settings) -> Inference {
        let row = || vec![[0.0; LANES]; settings.lanes()];
        Inference {
            settings,
            norm: row(),
            beta: Vec::new(),
            counts: Vec::new(),
            shares: Vec::new(),
            theta: row(),
            gamma: row(),
            found: row(),
        }
    }

    /// Begins a document. `totals` are the sums of `v` over all words.
    #[inline]
    pub fn begin(&mut self, scale: f64, totals: &[[f64; LANES]]) {
        let Settings { words, eta, topics, .. } = self.settings;
        let words = words as f64;
        for (b, (norm, totals)) in self.norm.iter_mut().zip(totals).enumerate() {
            for (k, (norm, total)) in norm.iter_mut().zip(totals).enumerate() {
                let sum = (f64::from(eta) * words + scale * total) as f32;
                *norm = if b * LANES + k < topics { words as f32 / exp_digamma(sum) } else { 0.0 };
            }
        }
        self.beta.clear();
        self.counts.clear();
    }

    /// Adds a word and its row of `v`.
    #[inline(always)]
    pub fn add(&mut self, count: f32, scale: f64, row: impl Iterator<Item = Lane>) {
        self.counts.push(count);
        let settings = self.settings;
        self.beta.extend(self.norm.iter().zip(row).map(|(norm, v)| {
            let lambda = settings.lambda(scale, &v);
            std::array::from_fn::<f32, LANES, _>(|k| exp_digamma(lambda[k]) * norm[k])
        }));
    }

    /// Infers the topics of the document whose words were added.
    #[inline]
    pub fn run(&mut self) {
        let Settings { topics, alpha, .. } = self.settings;
        let lanes = self.norm.len();
        let even = self.counts.iter().sum::<f32>() / topics as f32;
        self.gamma.fill([even; LANES]);
        self.shares.clear();
        self.shares.resize(self.counts.len(), 0.0);
        for _ in 0..MOST_ROUNDS {
            for (theta, gamma) in self.theta.iter_mut().zip(&self.gamma) {
                *theta = std::array::from_fn(|k| exp_digamma(alpha + gamma[k]));
            }
            self.found.fill([0.0; LANES]);
            let rows = self.beta.chunks_exact(lanes);
            for ((beta, &count), share) in rows.zip(&self.counts).zip(&mut self.shares) {
                *share = count / dot(&self.theta, beta);
                for (found, beta) in self.found.iter_mut().zip(beta) {
                    (0..LANES).for_each(|k| found[k] += *share * beta[k]);
                }
            }
            let mut change = [0.0; LANES];
            for ((gamma, found), theta) in self.gamma.iter_mut().zip(&self.found).zip(&self.theta) {
                let better: Lane = std::array::from_fn(|k| theta[k] * found[k]);
                (0..LANES).for_each(|k| change[k] += (better[k] - gamma[k]).abs());
                *gamma = better;
            }
            if sum(&change) < TOLERANCE * topics as f32 {
                break;
            }
        }
    }

    /// What lane `b` of the row of the document's word `at` has to change by, where the document is worth `weight`.
    #[inline(always)]
    pub fn change(&self, at: usize, b: usize, weight: f64) -> Lane {
        let factor = weight as f32 * self.shares[at];
        let (theta, beta) = (&self.theta[b], &self.beta[at * self.theta.len() + b]);
        std::array::from_fn(|k| factor * (theta[k] * beta[k]))
    }

    /// Adds to the sums over all words what the document changes.
    #[inline]
    pub fn add_totals(&self, weight: f64, totals: &mut [[f64; LANES]]) {
        for (totals, gamma) in totals.iter_mut().zip(&self.gamma) {
            totals.iter_mut().zip(gamma).for_each(|(total, &gamma)| *total += weight * f64::from(gamma));
        }
    }

    /// The logarithm of the likelihood of a document's hidden words, given those that are shown, when `scale` is 1. `row` gives
    /// the lanes of a word's row of `v`.
    pub fn log_likelihood<R: Iterator<Item = Lane>>(
        &mut self,
        probe: &Probe,
        totals: &[[f64; LANES]],
        row: impl Fn(u32) -> R,
    ) -> f64 {
        self.begin(1.0, totals);
        let Document { terms } = &probe.shown;
        terms.iter().for_each(|term| self.add(term.count, 1.0, row(term.word)));
        self.run();
        let Settings { words, eta, topics, alpha, .. } = self.settings;
        let topic = |x: usize| (x / LANES, x % LANES);
        let gamma = |x| f64::from(self.gamma[topic(x).0][topic(x).1]) + f64::from(alpha);
        let all: f64 = (0..topics).map(gamma).sum();
        // Of each topic: its part of the document, over the sum of its lambda.
        let of_topics: Vec<f64> = (0..topics)
            .map(|x| gamma(x) / all / (f64::from(eta) * words as f64 + totals[topic(x).0][topic(x).1]))
            .collect();
        probe
            .hidden
            .iter()
            .map(|term| {
                let lanes = row(term.word).map(|lane| self.settings.lambda(1.0, &lane));
                let lambda = lanes.flatten();
                let likelihood: f64 = of_topics.iter().zip(lambda).map(|(part, lambda)| part * f64::from(lambda)).sum();
                f64::from(term.count) * likelihood.ln()
            })
            .sum()
    }
}

/// The sum of a lane, halved until one is left.
#[inline(always)]
fn sum(lane: &Lane) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|k| lane[k] + lane[k + 8]);
    let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[inline(always)]
fn dot(a: &[Lane], b: &[Lane]) -> f32 {
    let mut products = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        (0..LANES).for_each(|k| products[k] += a[k] * b[k]);
    }
    sum(&products)
}

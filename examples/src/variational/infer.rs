//! What a document's topics are, given those of words: coordinate ascent on the bound of the document's likelihood.

use wide::f32x16;

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
    norm: Vec<f32x16>,
    /// For each of the document's words in turn `exp(E[log beta])` of each topic, all times a constant.
    beta: Vec<f32x16>,
    counts: Vec<f32>,
    /// For each of the document's words its count over the sum over topics of `theta * beta`.
    shares: Vec<f32>,
    /// `exp(E[log theta])` times a constant.
    theta: Vec<f32x16>,
    /// The parameters of the document's Dirichlet distribution, without their prior.
    gamma: Vec<f32x16>,
    found: Vec<f32x16>,
}

impl Inference {
    pub(super) fn new(settings: Settings) -> Inference {
        let row = || vec![f32x16::ZERO; settings.lanes()];
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
        let prior = f64::from(eta) * words as f64;
        for (b, (norm, totals)) in self.norm.iter_mut().zip(totals).enumerate() {
            let sums = f32x16::new(totals.map(|total| (prior + scale * total) as f32));
            let used: Lane = std::array::from_fn(|k| if b * LANES + k < topics { words as f32 } else { 0.0 });
            *norm = f32x16::new(used) / exp_digamma(sums);
        }
        self.beta.clear();
        self.counts.clear();
    }

    /// Adds a word and its row of `v`.
    #[inline(always)]
    pub fn add(&mut self, count: f32, scale: f64, row: impl Iterator<Item = Lane>) {
        self.counts.push(count);
        let (eta, scale) = (self.settings.eta, scale as f32);
        let beta = |(norm, v): (&f32x16, Lane)| exp_digamma(f32x16::new(v) * scale + eta) * *norm;
        self.beta.extend(self.norm.iter().zip(row).map(beta));
    }

    /// Infers the topics of the document whose words were added.
    #[inline]
    pub fn run(&mut self) {
        let Settings { topics, alpha, .. } = self.settings;
        let lanes = self.norm.len();
        let even = self.counts.iter().sum::<f32>() / topics as f32;
        self.gamma.fill(f32x16::splat(even));
        self.shares.clear();
        self.shares.resize(self.counts.len(), 0.0);
        for _ in 0..MOST_ROUNDS {
            for (theta, gamma) in self.theta.iter_mut().zip(&self.gamma) {
                *theta = exp_digamma(*gamma + alpha);
            }
            self.found.fill(f32x16::ZERO);
            let rows = self.beta.chunks_exact(lanes);
            for ((beta, &count), share) in rows.zip(&self.counts).zip(&mut self.shares) {
                *share = count / dot(&self.theta, beta);
                let share = f32x16::splat(*share);
                self.found.iter_mut().zip(beta).for_each(|(found, beta)| *found += share * *beta);
            }
            let mut change = f32x16::ZERO;
            for ((gamma, found), theta) in self.gamma.iter_mut().zip(&self.found).zip(&self.theta) {
                let better = *theta * *found;
                change += (better - *gamma).abs();
                *gamma = better;
            }
            if sum(change) < TOLERANCE * topics as f32 {
                break;
            }
        }
    }

    /// What lane `b` of the row of the document's word `at` has to change by, where the document is worth `weight`.
    #[inline(always)]
    pub fn change(&self, at: usize, b: usize, weight: f64) -> Lane {
        let (theta, beta) = (self.theta[b], self.beta[at * self.theta.len() + b]);
        (theta * beta * (weight as f32 * self.shares[at])).to_array()
    }

    /// Adds to the sums over all words what the document changes.
    #[inline]
    pub fn add_totals(&self, weight: f64, totals: &mut [[f64; LANES]]) {
        for (totals, gamma) in totals.iter_mut().zip(&self.gamma) {
            totals.iter_mut().zip(gamma.to_array()).for_each(|(total, gamma)| *total += weight * f64::from(gamma));
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
        let gamma = self.gamma.iter().flat_map(|gamma| gamma.to_array());
        let gamma: Vec<f64> = gamma.take(topics).map(|gamma| f64::from(gamma) + f64::from(alpha)).collect();
        let (all, prior) = (gamma.iter().sum::<f64>(), f64::from(eta) * words as f64);
        // Of each topic: its part of the document, over the sum of its lambda.
        let sums = totals.as_flattened().iter().map(|total| prior + total);
        let of_topics: Vec<f64> = gamma.iter().zip(sums).map(|(gamma, sum)| gamma / all / sum).collect();
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

/// The sum of a lane, halved until one is left: the order of the additions is part of the result.
#[inline(always)]
fn sum(lane: f32x16) -> f32 {
    let lane = lane.to_array();
    let eight: [f32; 8] = std::array::from_fn(|k| lane[k] + lane[k + 8]);
    let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[inline(always)]
fn dot(a: &[f32x16], b: &[f32x16]) -> f32 {
    sum(a.iter().zip(b).fold(f32x16::ZERO, |products, (a, b)| products + *a * *b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::variational::{Model, Term};

    fn settings(topics: usize) -> Settings {
        Settings::of_numbers(topics, 40, 30, 4, 0.1, 0.05)
    }

    fn digamma(x: f64) -> f64 {
        if x < 30.0 { digamma(x + 1.0) - 1.0 / x } else { x.ln() - 0.5 / x - 1.0 / (12.0 * x * x) }
    }

    /// The textbook's coordinate ascent: the document's gamma.
    fn textbook(settings: &Settings, lambda: &[Vec<f64>], terms: &[Term]) -> Vec<f64> {
        let topics = settings.topics;
        let sums: Vec<f64> = (0..topics).map(|k| lambda.iter().map(|row| row[k]).sum()).collect();
        let tokens: f64 = terms.iter().map(|t| f64::from(t.count)).sum();
        let mut gamma = vec![f64::from(settings.alpha) + tokens / topics as f64; topics];
        for _ in 0..MOST_ROUNDS {
            let mut next = vec![f64::from(settings.alpha); topics];
            for term in terms {
                let row = &lambda[term.word as usize];
                let phi: Vec<f64> =
                    (0..topics).map(|k| (digamma(gamma[k]) + digamma(row[k]) - digamma(sums[k])).exp()).collect();
                let all: f64 = phi.iter().sum();
                (0..topics).for_each(|k| next[k] += f64::from(term.count) * phi[k] / all);
            }
            let change: f64 = gamma.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
            gamma = next;
            if change < f64::from(TOLERANCE) * topics as f64 {
                break;
            }
        }
        gamma
    }

    #[test]
    fn topics_of_a_document_are_the_textbook_s() {
        for topics in [3, 16, 21] {
            let settings = settings(topics);
            let lanes = settings.lanes();
            let random = Stream::new(9, 1);
            // Words prefer some topics.
            let weight = |w: usize, k: usize| 40.0 * random.unit((w * 64 + k) as u64).powi(6);
            let v: Vec<Lane> = (0..settings.words * lanes)
                .map(|at| {
                    let first = at % lanes * LANES;
                    std::array::from_fn(|k| if first + k < topics { weight(at / lanes, first + k) } else { 0.0 })
                })
                .collect();
            let totals = crate::variational::start(&settings, v.iter().copied());
            let terms: Vec<Term> =
                [(3, 2.0), (8, 1.0), (21, 5.0), (39, 1.0)].map(|(word, count)| Term { word, count }).to_vec();
            let mut inference = settings.inference();
            // Any scale stands for the same lambda.
            let scale = 0.25;
            inference.begin(scale, &totals.iter().map(|lane| lane.map(|x| x / scale)).collect::<Vec<_>>());
            for term in &terms {
                let row = v[term.word as usize * lanes..].iter().take(lanes);
                inference.add(term.count, scale, row.map(|lane| lane.map(|x| x / scale as f32)));
            }
            inference.run();

            let lambda: Vec<Vec<f64>> = (0..settings.words)
                .map(|w| (0..topics).map(|k| f64::from(weight(w, k)) + f64::from(settings.eta)).collect())
                .collect();
            let want = textbook(&settings, &lambda, &terms);
            let gamma: Vec<f32> = inference.gamma.iter().flat_map(|lane| lane.to_array()).collect();
            for k in 0..topics {
                let found = f64::from(gamma[k] + settings.alpha);
                assert!((found - want[k]).abs() < 1e-3, "topic {k} of {topics}: {found}, not {}", want[k]);
            }
            assert!(gamma[topics..].iter().all(|&x| x == 0.0));
            // What the document gives to its words' rows is what it has.
            let given: f32 = (0..terms.len())
                .flat_map(|at| (0..lanes).map(move |b| (at, b)))
                .map(|(at, b)| inference.change(at, b, 1.0).iter().sum::<f32>())
                .sum();
            assert!((given - 9.0).abs() < 1e-4, "{given}");
        }
    }

    #[test]
    fn sums_stay_those_of_the_rows() {
        let settings = settings(21);
        let random = Stream::new(2, 2);
        let term = |n: u64| Term { word: (random.bits(n) % 40) as u32, count: 1.0 + (n % 3) as f32 };
        let documents: Vec<Document> =
            (0..30).map(|d| Document { terms: (d * 8..d * 8 + 8).map(term).collect() }).collect();
        let mut model = Model::new(settings, 7);
        for _ in 0..5 {
            model.epoch(&documents);
            let want = crate::variational::start(&settings, model.v.iter().copied());
            let found = model.totals();
            for (found, want) in found.as_flattened().iter().zip(want.as_flattened()) {
                assert!((found - want).abs() <= 1e-4 * want, "{found}, not {want}");
            }
        }
        // Nothing has come to topics that don't exist.
        assert!(model.v.chunks_exact(2).all(|row| row[1][5..] == [0.0; 11]));
    }
}

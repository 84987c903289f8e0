//! What a document's topics are, given those of words: coordinate ascent on the bound of the document's likelihood.

use wide::f32x16;

use super::{Probe, STRIP, Settings, Strip, Term, exp_digamma};

/// The document's topics are good enough when they change by this much on average, in words.
const TOLERANCE: f32 = 1e-3;
/// How often they are improved at the most.
const MOST_ROUNDS: usize = 100;

/// Infers the topics of a minibatch's documents, one after the other, and then what its words' rows have to change by: each
/// row once, however many of the documents have the word.
#[derive(Debug)]
pub struct Inference {
    settings: Settings,
    scale: f32,
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
    /// Of each document of the minibatch that is done: its `theta`, one after the other.
    thetas: Vec<f32x16>,
    /// Of each of their words: where its `theta` begins, and its share.
    parts: Vec<Part>,
    /// Where the parts of each different word end, once they are sorted.
    ends: Vec<usize>,
    /// The sum of their `gamma`.
    gammas: Vec<[f64; STRIP]>,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    word: u32,
    theta: u32,
    share: f32,
}

impl Inference {
    pub(super) fn new(settings: Settings) -> Inference {
        let row = || vec![f32x16::ZERO; settings.strips()];
        Inference {
            settings,
            scale: 1.0,
            norm: row(),
            beta: Vec::new(),
            counts: Vec::new(),
            shares: Vec::new(),
            theta: row(),
            gamma: row(),
            found: row(),
            thetas: Vec::new(),
            parts: Vec::new(),
            ends: Vec::new(),
            gammas: vec![[0.0; STRIP]; settings.strips()],
        }
    }

    /// Begins a minibatch. `totals` are the sums of `v` over all words.
    #[inline]
    pub fn begin(&mut self, scale: f64, totals: &[[f64; STRIP]]) {
        let Settings { words, eta, topics, .. } = self.settings;
        let prior = f64::from(eta) * words as f64;
        self.scale = scale as f32;
        for (b, (norm, totals)) in self.norm.iter_mut().zip(totals).enumerate() {
            let sums = f32x16::new(totals.map(|total| (prior + scale * total) as f32));
            let used: Strip = std::array::from_fn(|k| if b * STRIP + k < topics { words as f32 } else { 0.0 });
            *norm = f32x16::new(used) / exp_digamma(sums);
        }
        self.thetas.clear();
        self.parts.clear();
        self.gammas.fill([0.0; STRIP]);
    }

    /// Infers a document's topics. `row` gives the strips of a word's row of `v`.
    #[inline]
    pub fn document<R: Iterator<Item = Strip>>(&mut self, terms: &[Term], row: impl Fn(u32) -> R) {
        self.infer(terms, row);
        let theta = self.thetas.len() as u32;
        self.thetas.extend_from_slice(&self.theta);
        self.parts.extend(terms.iter().zip(&self.shares).map(|(term, &share)| Part { word: term.word, theta, share }));
        for (sums, gamma) in self.gammas.iter_mut().zip(&self.gamma) {
            sums.iter_mut().zip(gamma.to_array()).for_each(|(sum, gamma)| *sum += f64::from(gamma));
        }
    }

    #[inline(always)]
    fn infer<R: Iterator<Item = Strip>>(&mut self, terms: &[Term], row: impl Fn(u32) -> R) {
        let (eta, scale) = (self.settings.eta, self.scale);
        self.counts.clear();
        self.beta.clear();
        for term in terms {
            self.counts.push(term.count);
            let beta = |(norm, v): (&f32x16, Strip)| exp_digamma(f32x16::new(v) * scale + eta) * *norm;
            self.beta.extend(self.norm.iter().zip(row(term.word)).map(beta));
        }
        self.ascend();
    }

    /// Improves the document's topics until they hardly change.
    fn ascend(&mut self) {
        let Settings { topics, alpha, .. } = self.settings;
        let strips = self.norm.len();
        let even = self.counts.iter().sum::<f32>() / topics as f32;
        self.gamma.fill(f32x16::splat(even));
        self.shares.clear();
        self.shares.resize(self.counts.len(), 0.0);
        for _ in 0..MOST_ROUNDS {
            for (theta, gamma) in self.theta.iter_mut().zip(&self.gamma) {
                *theta = exp_digamma(*gamma + alpha);
            }
            self.found.fill(f32x16::ZERO);
            let rows = self.beta.chunks_exact(strips);
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

    /// Ends a minibatch: brings together what its documents say of each word. Gives how many different words they have.
    pub fn finish(&mut self) -> usize {
        self.parts.sort_unstable_by_key(|part| (part.word, part.theta));
        let parts = &self.parts;
        self.ends.clear();
        self.ends
            .extend((1..=parts.len()).filter(|&at| parts.get(at).is_none_or(|part| part.word != parts[at - 1].word)));
        self.ends.len()
    }

    /// The `n`-th of the minibatch's words.
    #[inline(always)]
    pub fn word(&self, n: usize) -> usize {
        self.parts[self.ends[n] - 1].word as usize
    }

    /// What strip `b` of the row of the minibatch's `n`-th word has to change by, where each document is worth `weight`. `v` is
    /// that strip.
    #[inline(always)]
    pub fn change(&self, n: usize, b: usize, weight: f64, v: Strip) -> Strip {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        let found = self.parts[start..self.ends[n]]
            .iter()
            .fold(f32x16::ZERO, |found, part| found + self.thetas[part.theta as usize + b] * f32x16::splat(part.share));
        let beta = exp_digamma(f32x16::new(v) * self.scale + self.settings.eta) * self.norm[b];
        (found * beta * (weight as f32)).to_array()
    }

    /// What strip `b` of the sums of all rows has to change by.
    #[inline]
    pub fn change_of_totals(&self, b: usize, weight: f64) -> [f64; STRIP] {
        self.gammas[b].map(|gamma| weight * gamma)
    }

    /// The logarithm of the likelihood of a document's hidden words, given those that are shown, when `scale` is 1. `row` gives
    /// the strips of a word's row of `v`.
    pub fn log_likelihood<R: Iterator<Item = Strip>>(
        &mut self,
        probe: &Probe,
        totals: &[[f64; STRIP]],
        row: impl Fn(u32) -> R,
    ) -> f64 {
        self.begin(1.0, totals);
        self.infer(&probe.shown.terms, &row);
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
                let strips = row(term.word).map(|strip| self.settings.lambda(1.0, &strip));
                let lambda = strips.flatten();
                let likelihood: f64 = of_topics.iter().zip(lambda).map(|(part, lambda)| part * f64::from(lambda)).sum();
                f64::from(term.count) * likelihood.ln()
            })
            .sum()
    }
}

/// The sum of a strip, halved until one is left: the order of the additions is part of the result.
#[inline(always)]
fn sum(strip: f32x16) -> f32 {
    let strip = strip.to_array();
    let eight: [f32; 8] = std::array::from_fn(|k| strip[k] + strip[k + 8]);
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
    use crate::variational::{Document, Model};
    use stradsap::random::Stream;

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
            let strips = settings.strips();
            let random = Stream::new(9, 1);
            // Words prefer some topics.
            let weight = |w: usize, k: usize| 40.0 * random.unit((w * 64 + k) as u64).powi(6);
            let v: Vec<Strip> = (0..settings.words * strips)
                .map(|at| {
                    let first = at % strips * STRIP;
                    std::array::from_fn(|k| if first + k < topics { weight(at / strips, first + k) } else { 0.0 })
                })
                .collect();
            let totals = crate::variational::start(&settings, v.iter().copied());
            let terms: Vec<Term> =
                [(3, 2.0), (8, 1.0), (21, 5.0), (39, 1.0)].map(|(word, count)| Term { word, count }).to_vec();
            let mut inference = settings.inference();
            // Any scale stands for the same lambda.
            let scale = 0.25;
            inference.begin(scale, &totals.iter().map(|strip| strip.map(|x| x / scale)).collect::<Vec<_>>());
            let scaled = |word: u32| {
                let row = v[word as usize * strips..].iter().take(strips);
                row.map(|strip| strip.map(|x| x / scale as f32))
            };
            inference.document(&terms, scaled);

            let lambda: Vec<Vec<f64>> = (0..settings.words)
                .map(|w| (0..topics).map(|k| f64::from(weight(w, k)) + f64::from(settings.eta)).collect())
                .collect();
            let want = textbook(&settings, &lambda, &terms);
            let gamma: Vec<f32> = inference.gamma.iter().flat_map(|strip| strip.to_array()).collect();
            for k in 0..topics {
                let found = f64::from(gamma[k] + settings.alpha);
                assert!((found - want[k]).abs() < 1e-3, "topic {k} of {topics}: {found}, not {}", want[k]);
            }
            assert!(gamma[topics..].iter().all(|&x| x == 0.0));
            // What documents give to their words' rows is what they have, and each row gets it once.
            inference.document(&terms[1..], scaled);
            assert_eq!(inference.finish(), 4);
            for (n, want) in [(0, 2.0), (1, 2.0), (2, 10.0), (3, 2.0)] {
                let strips = scaled(inference.word(n) as u32).enumerate();
                let given: f32 = strips.flat_map(|(b, strip)| inference.change(n, b, 1.0, strip)).sum();
                assert!((given - want).abs() < 1e-4, "{given} for the word of number {n}");
            }
            let all: f64 = (0..strips).flat_map(|b| inference.change_of_totals(b, 1.0)).sum();
            assert!((all - 16.0).abs() < 1e-4, "{all}");
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

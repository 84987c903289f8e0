//! Training as a plain sequential program.

use super::{Document, LANES, Lane, Probe, Settings, start};

/// The model: `lambda = eta + scale * v`.
#[derive(Debug, Clone)]
pub struct Model {
    settings: Settings,
    /// The rows of all words.
    pub v: Vec<Lane>,
    /// The sums of the rows.
    totals: Vec<[f64; LANES]>,
    steps: f64,
    log_scale: f64,
}

impl Model {
    /// A model that knows nothing.
    pub fn new(settings: Settings, seed: u64) -> Model {
        let v: Vec<_> = (0..settings.words * settings.lanes()).map(|at| settings.start(seed, at)).collect();
        Model { settings, totals: start(&settings, v.iter().copied()), v, steps: 0.0, log_scale: 0.0 }
    }

    /// The sums of the rows, by lane.
    pub fn totals(&self) -> &[[f64; LANES]] {
        &self.totals
    }

    /// One pass over the documents.
    pub fn epoch(&mut self, documents: &[Document]) {
        let settings = self.settings;
        let lanes = settings.lanes();
        let mut inference = settings.inference();
        for batch in documents.chunks(settings.minibatch) {
            let step = settings.share(self.steps) / settings.minibatch as f64;
            let (log_before, mut log_scale) = (self.log_scale, self.log_scale);
            let mut sums = self.totals.clone();
            for document in batch {
                let scale = log_scale.exp();
                inference.begin(scale, &sums);
                for term in &document.terms {
                    let first = term.word as usize * lanes;
                    inference.add(term.count, scale, self.v[first..first + lanes].iter().copied());
                }
                inference.run();
                log_scale -= step;
                let weight = settings.weight(step, log_scale);
                for (at, term) in document.terms.iter().enumerate() {
                    for b in 0..lanes {
                        let change = inference.change(at, b, weight);
                        let row = &mut self.v[term.word as usize * lanes + b];
                        row.iter_mut().zip(change).for_each(|(v, x)| *v += x);
                    }
                }
                inference.add_totals(weight, &mut sums);
            }
            // As differences, since that is how copies of a model are united.
            for (total, sum) in self.totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                *total += sum - *total;
            }
            self.log_scale += log_scale - log_before;
            self.steps += 1.0;
        }
        let scale = self.log_scale.exp();
        self.v.iter_mut().flatten().for_each(|v| *v = settings.folded(scale, *v));
        self.totals.iter_mut().flatten().for_each(|total| *total *= scale);
        self.log_scale = 0.0;
    }

    /// The sum of the log-likelihoods of the documents' hidden words.
    pub fn log_likelihood(&self, probes: &[Probe]) -> f64 {
        let lanes = self.settings.lanes();
        let mut inference = self.settings.inference();
        let row = |word: u32| self.v[word as usize * lanes..].iter().take(lanes).copied();
        probes.iter().map(|probe| inference.log_likelihood(probe, &self.totals, row)).sum()
    }
}

//! Training as a plain sequential program.

use super::{Document, Probe, STRIP, Settings, Strip, start};

/// The model: `lambda = eta + scale * v`.
#[derive(Debug, Clone)]
pub struct Model {
    settings: Settings,
    /// The rows of all words.
    pub v: Vec<Strip>,
    /// The sums of the rows.
    totals: Vec<[f64; STRIP]>,
    steps: f64,
    log_scale: f64,
}

impl Model {
    /// A model that knows nothing.
    pub fn new(settings: Settings, seed: u64) -> Model {
        let v: Vec<_> = (0..settings.words * settings.strips()).map(|at| settings.start(seed, at)).collect();
        Model { settings, totals: start(&settings, v.iter().copied()), v, steps: 0.0, log_scale: 0.0 }
    }

    /// The sums of the rows, by strip.
    pub fn totals(&self) -> &[[f64; STRIP]] {
        &self.totals
    }

    /// One pass over the documents.
    pub fn epoch(&mut self, documents: &[Document]) {
        let settings = self.settings;
        let strips = settings.strips();
        let mut inference = settings.inference();
        for batch in documents.chunks(settings.minibatch) {
            let v = &mut self.v;
            inference.begin(self.log_scale.exp(), &self.totals);
            for document in batch {
                inference.document(&document.terms, |word| v[word as usize * strips..].iter().take(strips).copied());
            }
            let step = settings.step(self.steps, batch.len());
            self.log_scale -= step;
            let weight = settings.weight(step, self.log_scale, batch.len());
            for n in 0..inference.finish() {
                for b in 0..strips {
                    let strip = &mut v[inference.word(n) * strips + b];
                    let change = inference.change(n, b, weight, *strip);
                    strip.iter_mut().zip(change).for_each(|(v, x)| *v += x);
                }
            }
            for (b, totals) in self.totals.iter_mut().enumerate() {
                totals.iter_mut().zip(inference.change_of_totals(b, weight)).for_each(|(total, x)| *total += x);
            }
            self.steps += 1.0;
        }
        let scale = self.log_scale.exp();
        self.v.iter_mut().flatten().for_each(|v| *v = settings.folded(scale, *v));
        self.totals.iter_mut().flatten().for_each(|total| *total *= scale);
        self.log_scale = 0.0;
    }

    /// The sum of the log-likelihoods of the documents' hidden words.
    pub fn log_likelihood(&self, probes: &[Probe]) -> f64 {
        let strips = self.settings.strips();
        let mut inference = self.settings.inference();
        let row = |word: u32| self.v[word as usize * strips..].iter().take(strips).copied();
        probes.iter().map(|probe| inference.log_likelihood(probe, &self.totals, row)).sum()
    }
}

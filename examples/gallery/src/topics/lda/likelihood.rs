//! The log-likelihood of tokens and assignments together, with both priors (Griffiths and Steyvers, 2004): what STRADS
//! plots over samples and over time (sections 5 and 5.1).
//!
//! ```text
//! sum over documents d: lnG(K alpha) - lnG(n_d + K alpha) + sum over topics k: lnG(n_dk + alpha) - lnG(alpha)
//! sum over topics k:    lnG(V beta)  - lnG(n_k + V beta)  + sum over words w:  lnG(n_wk + beta)  - lnG(beta)
//! ```
//!
//! Topics that a document or a word doesn't have add nothing.

use serde::{Deserialize, Serialize};

use super::{DocumentRow, Prior, WordRow};

/// Counts up to here are looked up.
const LOOKED_UP: usize = 1024;

/// lnG(n + prior) - lnG(prior) for counts n.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogGamma {
    prior: f64,
    of_prior: f64,
    table: Vec<f64>,
}

impl LogGamma {
    /// For a prior above 0.
    pub fn new(prior: f64) -> LogGamma {
        let of_prior = libm::lgamma(prior);
        let table = (0..LOOKED_UP).map(|n| libm::lgamma(n as f64 + prior) - of_prior).collect();
        LogGamma { prior, of_prior, table }
    }

    /// Of a count.
    pub fn rise(&self, count: u64) -> f64 {
        match self.table.get(count as usize) {
            Some(&rise) => rise,
            None => libm::lgamma(count as f64 + self.prior) - self.of_prior,
        }
    }
}

/// What documents, words and topics each add.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Likelihood {
    alpha: LogGamma,
    all_alpha: LogGamma,
    beta: LogGamma,
    all_beta: LogGamma,
}

impl Likelihood {
    /// For these priors.
    pub fn new(prior: Prior) -> Likelihood {
        let (alpha, beta) = (f64::from(prior.alpha), f64::from(prior.beta));
        Likelihood {
            alpha: LogGamma::new(alpha),
            all_alpha: LogGamma::new(alpha * prior.topics as f64),
            beta: LogGamma::new(beta),
            all_beta: LogGamma::new(beta * prior.words as f64),
        }
    }

    /// Of a document.
    pub fn document(&self, row: &DocumentRow) -> f64 {
        let (mut topics, mut tokens) = (0.0, 0);
        row.each_count(|count| {
            topics += self.alpha.rise(u64::from(count));
            tokens += u64::from(count);
        });
        topics - self.all_alpha.rise(tokens)
    }

    /// Of a word.
    pub fn word(&self, row: &WordRow) -> f64 {
        row.iter().map(|(_, count)| self.beta.rise(u64::from(count))).sum()
    }

    /// Of all topics.
    pub fn topics(&self, totals: &[i64]) -> f64 {
        -totals.iter().map(|&total| self.all_beta.rise(total.max(0) as u64)).sum::<f64>()
    }
}

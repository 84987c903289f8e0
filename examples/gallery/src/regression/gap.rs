//! How far from the least objective coefficients are, at most: objective and dual objective.
//!
//! Lasso: P(b) = 1/2 |y - X b|² + lambda |b|₁. With the residual r and any a such that no column has more than lambda in common
//! with a r, D = a r.y - a²/2 |r|² is not above any P. Logistic regression: P(b) = sum ln(1 + exp(-y z)) + lambda |b|₁ with
//! z = X b + intercept; D is the sum of the entropies of a s, with s = 1 / (1 + exp(y z)).

use stradsap::Element;

/// An objective, and what it can't be less than.
#[derive(Debug, Clone, Copy, PartialEq, Element)]
pub struct Gap {
    /// The objective.
    pub primal: f64,
    /// The dual objective.
    pub dual: f64,
    /// What the residual is scaled by for that.
    pub scale: f64,
}

impl Default for Gap {
    fn default() -> Gap {
        Gap { primal: f64::INFINITY, dual: f64::NEG_INFINITY, scale: 1.0 }
    }
}

impl Gap {
    /// Of a Lasso: `square` is |r|², `shared` the sum of what each column has in common with r times its coefficient, `largest`
    /// the most that a column has in common with r.
    pub fn of_lasso(lambda: f64, square: f64, shared: f64, norm: f64, largest: f64) -> Gap {
        // y = r + X b, so r.y = |r|² + b.(X'r).
        let fit = square + shared;
        let most = if largest > 0.0 { lambda / largest } else { f64::INFINITY };
        let scale = if square > 0.0 { (fit / square).clamp(-most, most) } else { 1.0f64.min(most) };
        Gap { primal: 0.5 * square + lambda * norm, dual: scale * (fit - 0.5 * scale * square), scale }
    }

    /// The difference.
    pub fn absolute(&self) -> f64 {
        (self.primal - self.dual).max(0.0)
    }

    /// The difference as a part of the objective; 0 where the objective is 0.
    pub fn relative(&self) -> f64 {
        if self.primal == 0.0 { 0.0 } else { self.absolute() / self.primal }
    }
}

/// The loss of an example and of its probability to be in the other class: ln(1 + exp(-z)), 1 / (1 + exp(z)).
#[inline]
pub fn logistic(z: f64) -> (f64, f64) {
    let e = (-z.abs()).exp();
    let p = if z >= 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    ((-z).max(0.0) + e.ln_1p(), p)
}

/// -u ln u - (1 - u) ln (1 - u).
#[inline]
pub fn entropy(u: f64) -> f64 {
    let part = |u: f64| if u > 0.0 { -u * u.ln() } else { 0.0 };
    part(u) + part(1.0 - u)
}

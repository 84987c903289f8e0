//! What a run is drawn as: a point an epoch.

use super::programs::{Epoch, Ran};

/// The state after an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// From 1.
    pub epoch: u32,
    /// Seconds of training up to here.
    pub seconds: f64,
    /// Samples processed up to here.
    pub samples: f64,
    /// What the algorithm minimises or maximises.
    pub objective: f64,
    /// Rounds up to here, where the program has a schedule of its own.
    pub rounds: Option<f64>,
    /// Updates of a coefficient up to here, where there are coefficients.
    pub updates: Option<f64>,
    /// Columns that gradients of all were computed of up to here.
    pub columns_read: Option<f64>,
    /// How far behind reads were: in rounds at most, or topic totals on average.
    pub staleness: Option<f64>,
    /// Bytes that processes sent each other up to here.
    pub bytes: u64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What the legend and the tables call it.
    pub name: String,
    /// In the order of the epochs.
    pub points: Vec<Point>,
    /// The epoch in which the objective was no longer finite.
    pub diverged: Option<u32>,
}

impl Curve {
    /// Of a run; `samples` says how many samples were processed up to the end of an epoch.
    pub fn of(
        name: impl Into<String>,
        ran: &Ran,
        samples: impl Fn(&Epoch) -> f64,
        objective: impl Fn(&Epoch) -> f64,
    ) -> Curve {
        let (mut seconds, mut bytes) = (0.0, 0);
        let epochs = ran.report.iter().flat_map(|report| &report.epochs);
        let points = epochs.map(|epoch| {
            seconds += epoch.seconds;
            bytes += epoch.bytes_sent;
            Point {
                epoch: epoch.epoch,
                seconds,
                samples: samples(epoch),
                objective: objective(epoch),
                rounds: epoch.measure("rounds").filter(|rounds| *rounds > 0.0),
                updates: epoch.measure("updates"),
                columns_read: epoch.measure("columns_read"),
                staleness: epoch.measure("staleness").or_else(|| epoch.measure("s_error")),
                bytes,
            }
        });
        Curve { name: name.into(), points: points.collect(), diverged: ran.diverged }
    }

    /// With what became of it, for a legend.
    pub fn label(&self) -> String {
        match self.diverged {
            Some(epoch) => format!("{} (diverges in epoch {epoch})", self.name),
            None => self.name.clone(),
        }
    }
}

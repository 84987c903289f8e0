//! stradsap: the plain loop again, in `async_parallel_for!`.

use std::time::Instant;

use anyhow::Result;
use stradsap::ClusterOptions;
use stradsap::prelude::*;
use stradsap_examples::model::{Matrix, sgd_step};

use super::{Contestant, Preparation, STRADSAP};
use crate::data::{Rating, RatingSet};
use crate::model::{Factors, initial};

/// The loop that stradsap makes parallel.
pub struct Ours<const K: usize> {
    session: Session,
    threads: usize,
    ratings: DVector<Rating>,
    p: DVector<[f32; K]>,
    q: DVector<[f32; K]>,
    alpha: f32,
    lambda: f32,
    preparation: Option<Preparation>,
    plans: usize,
    report: Option<LoopReport>,
}

impl<const K: usize> Ours<K> {
    /// The loop in a session of this many threads, at the initial factors.
    ///
    /// # Errors
    /// The session can't be built.
    pub fn new(set: &RatingSet, threads: usize) -> Result<Self> {
        Self::in_session(Session::builder().threads(threads).build()?, set, set.train.clone(), None)
    }

    /// The loop on worker processes that are started now, at the initial factors. They end with it.
    ///
    /// # Errors
    /// The session can't be built, or the processes don't come.
    pub fn on_workers(set: &RatingSet, processes: &ClusterOptions) -> Result<Self> {
        Self::in_session(Session::builder().threads(1).build()?, set, set.train.clone(), Some(processes))
    }

    /// The loop over `train` in a session, on processes if any are given, at the initial factors of `set`.
    ///
    /// # Errors
    /// The processes don't come.
    pub fn in_session(
        session: Session,
        set: &RatingSet,
        train: Vec<Rating>,
        processes: Option<&ClusterOptions>,
    ) -> Result<Self> {
        if let Some(processes) = processes {
            session.start_workers(processes)?;
        }
        let ratings = DVector::from_vec(&session, train)?;
        let p = DVector::from_fn(&session, set.users, |user| initial(set, Matrix::Users, user))?;
        let q = DVector::from_fn(&session, set.items, |item| initial(set, Matrix::Items, item))?;
        let (alpha, lambda, threads) = (set.alpha, set.lambda, session.threads());
        Ok(Self { session, threads, ratings, p, q, alpha, lambda, preparation: None, plans: 0, report: None })
    }

    /// What the last epoch's loop says of itself.
    pub fn report(&self) -> Option<&LoopReport> {
        self.report.as_ref()
    }
}

impl<const K: usize> Contestant<K> for Ours<K> {
    fn name(&self) -> &'static str {
        STRADSAP
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn epoch(&mut self) -> Result<f64> {
        let start = Instant::now();
        let loss = self.session.sum(0.0f64);
        let report = async_parallel_for!(
            0..self.ratings.len(),
            [
                alpha = self.alpha,
                lambda = self.lambda,
                ratings = &self.ratings,
                p = &mut self.p,
                q = &mut self.q,
                &loss
            ],
            |i| {
                let r = ratings[i];
                let e = sgd_step(&mut p[r.user], &mut q[r.item], r.stars, alpha, lambda);
                loss.add(f64::from(e * e));
            }
        )?;
        self.plans += usize::from(!report.reused());
        if self.preparation.is_none() {
            self.preparation = Some(Preparation {
                recording: report.seconds_recording(),
                planning: report.seconds_planning(),
                first_call: start.elapsed().as_secs_f64(),
            });
        }
        self.report = Some(report);
        Ok(loss.get())
    }

    fn factors(&self) -> Result<Factors<K>> {
        Ok(Factors { p: self.p.to_vec()?, q: self.q.to_vec()? })
    }

    fn preparation(&self) -> Option<Preparation> {
        self.preparation
    }
    fn plans(&self) -> Option<usize> {
        Some(self.plans)
    }
}

/// The same loop over matrices whose width the compiler doesn't know.
pub struct Rows {
    session: Session,
    ratings: DVector<Rating>,
    p: DMatrix<f32>,
    q: DMatrix<f32>,
    alpha: f32,
    lambda: f32,
}

impl Rows {
    /// The loop in a session of this many threads, at the initial factors.
    ///
    /// # Errors
    /// The session can't be built.
    pub fn new(set: &RatingSet, threads: usize, rank: usize) -> Result<Self> {
        let session = Session::builder().threads(threads).build()?;
        let rows = |matrix, n| {
            DMatrix::from_vec(&session, rank, (0..n).flat_map(|i| set.start.row(matrix, rank, i)).collect())
        };
        let (p, q) = (rows(Matrix::Users, set.users)?, rows(Matrix::Items, set.items)?);
        let ratings = DVector::from_vec(&session, set.train.clone())?;
        Ok(Rows { session, ratings, p, q, alpha: set.alpha, lambda: set.lambda })
    }
}

impl<const K: usize> Contestant<K> for Rows {
    fn name(&self) -> &'static str {
        "stradsap, DMatrix"
    }

    fn threads(&self) -> usize {
        self.session.threads()
    }

    fn epoch(&mut self) -> Result<f64> {
        let loss = self.session.sum(0.0f64);
        async_parallel_for!(
            0..self.ratings.len(),
            [
                alpha = self.alpha,
                lambda = self.lambda,
                ratings = &self.ratings,
                p = &mut self.p,
                q = &mut self.q,
                &loss
            ],
            |i| {
                let r = ratings[i];
                let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
                let e = r.stars - kernels::dot(pu, qi);
                kernels::each_pair(pu, qi, |p, q| {
                    let (a, b) = (*p, *q);
                    *p += alpha * (e * b - lambda * a);
                    *q += alpha * (e * a - lambda * b);
                });
                loss.add(f64::from(e * e));
            }
        )?;
        Ok(loss.get())
    }

    fn factors(&self) -> Result<Factors<K>> {
        let rows = |m: &DMatrix<f32>| -> Result<Vec<[f32; K]>> { Ok(m.to_vec()?.as_chunks::<K>().0.to_vec()) };
        Ok(Factors { p: rows(&self.p)?, q: rows(&self.q)? })
    }
}

//! A job that has more data with each epoch, all of which stays: written by loops and by the program, made by operators, read again
//! later, and checkpointed.

use stradsap::prelude::*;

use super::processes::memory;
use crate::common::{Rating, below, ratings};

/// Makes this executable that job.
pub const SETS: &str = "STRADSAP_TEST_SETS";

/// Elements of each DVector of an epoch: 4 MB.
const LEN: usize = 500_000;
const RATINGS: usize = 4_000;

struct Set {
    given: DVector<f64>,
    written: DVector<f64>,
    made: DVector<f64>,
    data: DVector<Rating>,
    errors: DVector<f64>,
}

impl Set {
    fn new(session: &Session, epoch: usize) -> stradsap::Result<Set> {
        let given = DVector::from_fn(session, LEN, |i| below((epoch * LEN + i) as u64, 1000) as f64)?;
        Ok(Set {
            written: DVector::from_fn(session, LEN, |i| i as f64)?,
            made: with!([epoch], given.map(|x| x * 3.0 + epoch as f64)).collect()?,
            given,
            data: DVector::from_vec(session, ratings(RATINGS, 300 + epoch, 200))?,
            errors: DVector::from_fn(session, RATINGS, |_| 0.0)?,
        })
    }

    fn write(&mut self, p: &mut DMatrix<f64>) -> stradsap::Result<()> {
        let Set { given, written, made, data, errors } = self;
        async_parallel_for!(0..LEN, [&given, &mut written, &made], |i| {
            written[i] = 0.5 * written[i] + given[i] - made[i];
        })?;
        async_parallel_for!(
            0..RATINGS,
            [&data, &mut errors, &mut p],
            |n| {
                let r = data[n];
                let error = f64::from(r.stars) - p[r.user][0] * p[1000 + r.item as usize][1];
                p[r.user][0] += 0.01 * error;
                p[1000 + r.item as usize][1] += 0.01 * error;
                errors[n] = 0.5 * errors[n] + error;
            },
            strategy = Grid,
            parts = 4
        )?;
        Ok(())
    }

    /// Some of the elements.
    fn seen(&self, at: usize) -> stradsap::Result<f64> {
        let some: f64 = self.given.read(at..at + 1000)?.iter().sum();
        Ok(some + self.written.get(at)? + self.made.get(LEN - 1 - at)? + self.errors.get(at % RATINGS)?)
    }

    fn digest(&self) -> stradsap::Result<String> {
        let errors = self.errors.digest()?;
        Ok([self.given.digest()?, self.written.digest()?, self.made.digest()?, self.data.digest()?, errors].concat())
    }
}

#[allow(clippy::print_stdout)]
pub fn run(session: &Session, epochs: usize, folder: Option<String>) -> stradsap::Result<()> {
    let mut checkpoints = folder.map(|folder| Checkpoints::new(folder, 1)).transpose()?;
    let mut p = DMatrix::from_fn(session, 1200, 2, |row, k| 0.1 + below((2 * row + k) as u64, 100) as f64 / 200.0)?;
    let mut sets: Vec<Set> = Vec::new();
    println!("begins at 0");
    for epoch in 0..epochs {
        sets.push(Set::new(session, epoch)?);
        // The last one, and an earlier one once more.
        for k in [epoch, epoch / 2] {
            sets[k].write(&mut p)?;
        }
        let seen = sets[epoch / 3].seen(epoch * 1000)?;
        sets[epoch / 2].written.set(epoch, seen)?;
        if let Some(checkpoints) = &mut checkpoints {
            checkpoints.save(epoch as u64 + 1, &seen, &[("written", &sets[epoch].written), ("p", &p)])?;
        }
        println!("epoch {epoch} {:016x}", seen.to_bits());
    }
    drop(checkpoints);
    let digests = sets.iter().map(Set::digest).collect::<stradsap::Result<Vec<_>>>()?;
    println!("peak {}", memory(std::process::id()).map_or(0, |(peak, _)| peak));
    println!("digest {} {}", digests.concat(), p.digest()?);
    Ok(())
}

//! Logistic regression: does a person earn more than 50,000 dollars a year? `cargo run --release --example adult` learns from the
//! Adult data of the repository; two other files in LIBSVM's format, to train on and to test with, may be named on the command line.

#![allow(clippy::print_stdout, reason = "what the program finds")]

use stradsap::prelude::*;

const DATA: [&str; 2] =
    [concat!(env!("CARGO_MANIFEST_DIR"), "/../data/a9a.gz"), concat!(env!("CARGO_MANIFEST_DIR"), "/../data/a9a.t.gz")];

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let path = |n: usize| std::env::args().nth(n + 1).unwrap_or_else(|| DATA[n].to_owned());
    let (train, test) = (session.read_libsvm(path(0))?, session.read_libsvm(path(1))?);
    let last = |people: &DVector<Labelled>| {
        people.map(|person| person.indices.iter().copied().max().unwrap_or(0)).reduce(u32::max)
    };
    let intercept = 1 + last(&train)?.max(last(&test)?).unwrap_or(0) as usize; // its weight follows those of the features
    let mut weights = DVector::from_fn(session, intercept + 1, |_| 0.0f32)?;

    for epoch in 1..=10 {
        let (rate, loss) = (0.1 / epoch as f32, session.sum(0.0f64));
        sync_parallel_for!(
            train,
            100,
            [rate, intercept, &mut weights, &loss],
            |batch| {
                for person in batch {
                    let features = || person.indices.iter().zip(&person.values);
                    let score = weights[intercept].get() + features().map(|(&f, x)| weights[f].get() * x).sum::<f32>();
                    let margin = person.label as f32 * score; // labels are -1 and 1
                    let step = rate * person.label as f32 / (1.0 + margin.exp());
                    features().for_each(|(&f, x)| weights[f].add(step * x));
                    weights[intercept].add(step);
                    loss.add(f64::from((-margin).exp().ln_1p()));
                }
            },
            SyncPolicy::ModelAverage { every: 10 }
        )?;
        println!("epoch {epoch:2}: mean loss {:.4}", loss.get() / train.len() as f64);
    }

    let right = with!(
        [intercept, &weights],
        test.filter(|person| {
            let features = person.indices.iter().zip(&person.values);
            let score = weights[intercept] + features.map(|(&f, x)| weights[f] * x).sum::<f32>();
            (score > 0.0) == (person.label > 0.0)
        })
    )
    .count()?;
    println!("{right} of {} people are classed right", test.len());
    Ok(())
}

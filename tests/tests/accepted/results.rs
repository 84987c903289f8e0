//! Bodies that may fail.
use std::num::ParseFloatError;
use stradsap::prelude::*;

#[derive(Debug)]
enum Wrong {
    Text(ParseFloatError),
    Negative(usize),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Text(error) => write!(f, "{error}"),
            Wrong::Negative(i) => write!(f, "number {i} is negative"),
        }
    }
}

impl std::error::Error for Wrong {}

impl From<ParseFloatError> for Wrong {
    fn from(error: ParseFloatError) -> Self {
        Wrong::Text(error)
    }
}

fn parse(texts: &DVector<String>, numbers: &mut DVector<f32>) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..texts.len(), [&texts, &mut numbers], |i| -> Result<(), Wrong> {
        let number: f32 = texts[i].parse()?;
        if number < 0.0 {
            return Err(Wrong::Negative(i));
        }
        numbers[i] = number;
        Ok(())
    })
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = DVector::from_vec(session, vec![0.0f32; 2])?;
    let good = DVector::from_vec(session, vec!["1".to_string(), "2".to_string()])?;
    parse(&good, &mut numbers)?;
    assert_eq!(numbers.to_vec()?, [1.0, 2.0]);
    for bad in ["x", "-1"] {
        let bad = DVector::from_vec(session, vec!["1".to_string(), bad.to_string()])?;
        assert!(parse(&bad, &mut numbers).is_err());
    }

    // The error's type may also be said inside.
    async_parallel_for!(0..good.len(), [&good, &mut numbers], |i| {
        numbers[i] += good[i].parse::<f32>()?;
        Ok::<_, ParseFloatError>(())
    })?;
    assert_eq!(numbers.to_vec()?, [2.0, 4.0]);
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}

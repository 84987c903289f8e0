//! Values of many kinds, and the ways in which a body may use them.
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;

#[derive(Clone, Serialize, Deserialize)]
struct Settings {
    rate: f32,
    names: Vec<String>,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut p = DVector::from_vec(session, vec![0.0f32; 4])?;
    let weights = vec![1.0f32, 2.0, 3.0, 4.0];
    let settings = Settings { rate: 0.5, names: vec!["a".to_string()] };
    let pair = (1u32, true);
    let corner = [1.0f32; 2];

    // Used twice in a row: capturing copies, so nothing is moved.
    for _ in 0..2 {
        async_parallel_for!(0..p.len(), [weights, settings, &mut p], |i| {
            p[i] += weights[i] * settings.rate * settings.names.len() as f32;
        })?;
    }
    assert_eq!(weights.len(), settings.names.len() + 3);

    // Copy types arrive as themselves, others by reference.
    async_parallel_for!(0..p.len(), [pair, corner, weights, &mut p], |i| {
        let (first, flag): (u32, bool) = pair;
        let by_reference: &Vec<f32> = weights;
        if flag {
            p[i] += first as f32 + corner[0] + by_reference.iter().sum::<f32>();
        }
    })?;
    assert_eq!(p.to_vec()?, [13.0, 14.0, 15.0, 16.0]);

    // No values, and no index.
    async_parallel_for!(0..3, [&mut p], |_| p[0u32] += 1.0)?;
    // Expressions under a name.
    async_parallel_for!(0..p.len(), [n = weights.len() + 1, half = 0.5 * settings.rate, &mut p], |i: usize| {
        p[i] += n as f32 * half;
    })?;
    assert_eq!(p.to_vec()?, [17.25, 15.25, 16.25, 17.25]);
    referred_to(&mut p, &weights, &settings, "text", &weights[1..])
}

/// References are captured as they are, or by what they refer to.
fn referred_to(
    p: &mut DVector<f32>,
    weights: &Vec<f32>,
    settings: &Settings,
    text: &str,
    slice: &[f32],
) -> stradsap::Result<()> {
    async_parallel_for!(
        0..3,
        [*weights, s = *settings, text = text.to_string(), slice = slice.to_vec(), &mut *p],
        |i| {
            p[i] = weights[i] * s.rate + slice[i] + text.len() as f32;
        }
    )?;
    assert_eq!(p.to_vec()?, [6.5, 8.0, 9.5, 17.25]);
    async_parallel_for!(0..3, [weights, settings, text, slice, &mut *p], |i| {
        p[i] += weights[i] * settings.rate + slice[i] + text.len() as f32;
    })?;
    assert_eq!(p.to_vec()?, [13.0, 16.0, 19.0, 17.25]);
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}

//! Captures of fields, and of DVectors behind references.
use stradsap::prelude::*;

struct Model {
    alpha: f32,
    names: Vec<String>,
    p: DVector<f32>,
}

impl Model {
    fn step(&mut self, data: &DVector<f32>) -> stradsap::Result<LoopReport> {
        async_parallel_for!(
            0..data.len(),
            [alpha = self.alpha, known = self.names.len(), &data, p = &mut self.p],
            |i| {
                p[i] += alpha * data[i] * known as f32;
            }
        )
    }

    fn read(&self, out: &mut DVector<f32>) -> stradsap::Result<()> {
        async_parallel_for!(0..out.len(), [p = &self.p, &mut out], |i| out[i] = p[i])?;
        Ok(())
    }
}

/// `p` is a reference itself, and need not be `mut` to be captured.
fn double(p: &mut DVector<f32>) -> stradsap::Result<()> {
    async_parallel_for!(0..p.len(), [&mut p], |i| p[i] *= 2.0)?;
    async_parallel_for!(0..p.len(), [&mut *p], |i| p[i] *= 0.5)?;
    async_parallel_for!(0..p.len(), [&mut p], |i| {
        p[i] *= 2.0;
    })?;
    p.set(0, 1.0)
}

fn scale(p: &mut DVector<f32>, factor: &f32) -> stradsap::Result<()> {
    async_parallel_for!(0..p.len(), [*factor, &mut p], |i| p[i] *= factor)?;
    Ok(())
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0, 2.0, 3.0])?;
    let p = DVector::from_vec(session, vec![0.0; 3])?;
    let mut model = Model { alpha: 0.5, names: vec!["one".to_string(), "two".to_string()], p };
    model.step(&data)?;
    double(&mut model.p)?;
    scale(&mut model.p, &10.0)?;
    let mut out = DVector::from_vec(session, vec![0.0; 3])?;
    model.read(&mut out)?;
    assert_eq!(out.to_vec()?, [10.0, 40.0, 60.0]);
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}

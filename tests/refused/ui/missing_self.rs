//! A method's loop uses `self`.
use stradsap::prelude::*;

struct Model {
    alpha: f32,
    p: DVector<f32>,
}

impl Model {
    fn step(&mut self, x: &DVector<f32>) -> stradsap::Result<LoopReport> {
        async_parallel_for!(0..x.len(), [&x], |i| {
            self.p[i] += self.alpha * x[i];
        })
    }

    fn again(&mut self, x: &DVector<f32>) -> stradsap::Result<LoopReport> {
        async_parallel_for!(0..x.len(), [self.alpha, &mut self.p, &x], |i| {
            p[i] += alpha * x[i];
        })
    }

    fn whole(&mut self, x: &DVector<f32>) -> stradsap::Result<LoopReport> {
        async_parallel_for!(0..x.len(), [self, &x], |i| {
            self.p[i] += self.alpha * x[i];
        })
    }
}

fn main() {}

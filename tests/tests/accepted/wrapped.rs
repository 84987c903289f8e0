//! Loops within the macros of a program, and options that the program computes.
#![deny(warnings)]
use stradsap::prelude::*;

macro_rules! each {
    ($x:ident, [$($captured:tt)*], $body:expr) => {
        async_parallel_for!(0..$x.len(), [$($captured)*], $body)
    };
}

macro_rules! fill {
    ($x:ident, $value:expr) => {
        async_parallel_for!(0..$x.len(), [value = $value, &mut $x], |i| {
            $x[i] = value;
        })
    };
}

macro_rules! with_list {
    ($range:expr, $list:expr, $body:expr) => {
        async_parallel_for!($range, $list, $body)
    };
}

#[stradsap::main]
pub fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    let mut x = DVector::from_vec(session, vec![0.0f32; 4])?;
    fill!(x, 1.0 + 1.0)?;
    each!(x, [&mut x], |i| {
        let before = x[i];
        x[i] = before + 1.0;
    })?;
    with_list!(0..4, [&mut x], |k| x[k] += 1.0)?;
    assert_eq!(x.to_vec()?, [4.0; 4]);

    let name = String::from("doubled");
    let wanted = 2;
    for order in [Order::Any, Order::Preserve] {
        for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
            let report = async_parallel_for!(
                0..=x.len() - 1,
                [&mut x],
                move |i| {
                    x[i] *= 2.0;
                    x[(i + 1) % 4] *= 0.5;
                },
                order = order,
                strategy = strategy,
                parts = wanted + 1,
                label = &*name,
            )?;
            assert_eq!(report.iterations(), 4);
        }
    }
    async_parallel_for!(
        0..x.len(),
        [&mut x],
        |i| x[i] = 0.0,
        order = Order::Any,
        strategy = stradsap::Strategy::Serial
    )?;
    assert_eq!(x.to_vec()?, [0.0; 4]);
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}

//! What may stand in a body: closures, matches, shadowing, inner loops, items, macros.
#![deny(warnings)]
use stradsap::prelude::*;

fn square(x: f32) -> f32 {
    x * x
}

mod table {
    pub(super) fn lookup(i: usize) -> Option<f32> {
        i.is_multiple_of(2).then_some(i as f32)
    }
}

macro_rules! twice {
    ($x:expr) => {
        $x + $x
    };
}

macro_rules! bind {
    ($name:ident = $value:expr) => {
        let $name = $value;
    };
}

const LIMIT: f32 = 1000.0;
static SITE: usize = 3;

#[stradsap::main]
fn start(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_fn(session, 8, |i| i as f32)?;
    let factor = 2.0f32;
    let values = vec![1, 2, 3];
    let views = 1usize;

    // Functions by name, with lower-case letters.
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        let f = square;
        let even = table::lookup(i).map(square).map_or(0.0, f32::sqrt);
        x[i] = if even > 0.0 { even } else { f(x[i]).sqrt() };
    })?;
    assert_eq!(x.to_vec()?[..3], [0.0, 1.0, 2.0]);

    // Names like those of the expansion; the site's static is not in the body's way.
    async_parallel_for!(0..x.len(), [values, views, &mut x], |i| {
        x[i] += (values.len() + views + SITE) as f32 - 7.0;
    })?;

    async_parallel_for!(
        0..x.len(),
        [factor, &mut x],
        |i| {
            use std::cmp::{max, min as least};
            const STEP: usize = 2;
            fn half(x: f32) -> f32 {
                x / 2.0
            }
            struct Pair {
                a: f32,
                b: f32,
            }

            let factor = factor + 1.0;
            let n @ (0..=9 | 11) = i else { return };
            let scale = |y: f32| -> f32 { y * factor };
            let pair = Pair { a: scale(x[i]), b: half(x[i]) };
            let Pair { a, b: second } = pair;
            let mut total = a + second;
            'outer: for k in 0..max(n, least(4, 5)) {
                for j in (0..k).step_by(STEP) {
                    if j > 3 {
                        continue 'outer;
                    }
                    if k == 6 {
                        break 'outer;
                    }
                    total += j as f32;
                }
                while let Some(k) = k.checked_sub(10) {
                    total += k as f32;
                    if total > 1.0 {
                        break;
                    }
                }
            }
            let found = 'search: {
                for (at, value) in [1.0, 2.0].iter().enumerate() {
                    if *value > total {
                        break 'search Some(at);
                    }
                }
                None
            };
            total += match found {
                Some(at) if at > 0 => at as f32,
                Some(at) => (at + 1) as f32,
                None => 0.0,
            };
            if let Some(limit) = Some(LIMIT)
                && let smaller = total.min(limit)
                && smaller < limit
            {
                total = smaller;
            } else if total > LIMIT {
                return;
            }
            bind!(sum = twice!(total));
            let (mut low, mut high) = (0.0, 0.0);
            (low, high) = (sum - 1.0, high + sum - low);
            let texts: Vec<String> = [low, high].iter().map(ToString::to_string).map(|text| text + "!").collect();
            let width = 8;
            let line = format!("{low:>width$.2} {high:?} {named} {0} {{skipped}}", texts.len(), named = texts[0]);
            assert!(line.len() > 8, "{line} {}", total);
            assert!(matches!(found, Some(at) if at < 9) || found.is_none());
            x[i] = [low; 2].into_iter().fold(0.0, |sum, y| sum + y) * 0.0
                + loop {
                    if total >= 0.0 {
                        break total;
                    }
                    total += 1.0;
                };
        },
        strategy = Serial
    )?;

    // Parts of the pattern language.
    async_parallel_for!(0..x.len(), [&mut x], |mut i| {
        i += 0;
        let [first, .., last] = [1.0, 2.0, 3.0f32];
        let (one, Ok(two) | Err(two)) = (first, last.partial_cmp(&0.0).map_or(Err(0.0), |_| Ok(last)));
        x[i] += one + two;
    })
    .map(|report| report.blocks())?;
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}

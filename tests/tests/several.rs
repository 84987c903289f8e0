//! Several elements of a DVector that a body has at once.

use crate::common::session;
use stradsap::Error;
use stradsap::prelude::*;

#[test]
fn several_elements_at_once() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let session = session(2);
        let mut x = DVector::from_fn(&session, 40, |i| vec![i]).unwrap();
        let mut px = x.to_vec().unwrap();
        let report = async_parallel_for!(
            0..400,
            [&mut x],
            |i| {
                let (one, other) = x.pair_mut(i % 40, (i + 13) as u32 % 40);
                std::mem::swap(one, other);
                one.push(i);
                let [a, b, c] = x.many_mut([i * 3 % 40, (i * 3 + 1) % 40, (i * 3 + 2) % 40]);
                std::mem::swap(a, c);
                b.truncate(3);
                let all: [&mut Vec<usize>; 0] = x.many_mut([0usize; 0]);
                assert!(all.is_empty());
            },
            strategy = strategy,
            parts = 3
        )
        .unwrap();
        assert_eq!((report.strategy(), report.misspeculations()), (strategy, 0));
        for i in report.serial_order() {
            px.swap(i % 40, (i + 13) % 40);
            px[i % 40].push(i);
            px.swap(i * 3 % 40, (i * 3 + 2) % 40);
            px[(i * 3 + 1) % 40].truncate(3);
        }
        assert_eq!(x.to_vec().unwrap(), px, "{strategy}");
    }
}

#[test]
fn one_element_is_not_lent_twice() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let session = session(2);
        let mut x = DVector::from_fn(&session, 40, |i| i as u32).unwrap();
        let message = |result: stradsap::Result<LoopReport>| match result.unwrap_err() {
            Error::Panic { iteration, message, .. } => (iteration, message),
            other => panic!("{other}"),
        };
        let found = message(async_parallel_for!(
            0..200,
            [&mut x],
            |i| {
                let other = if i == 133 { i % 40 } else { (i + 1) % 40 };
                let (a, b) = x.pair_mut(i % 40, other as u32);
                std::mem::swap(a, b);
            },
            strategy = strategy,
            parts = 3
        ));
        assert_eq!(found, (133, "element 13 is asked for twice at once".to_string()));
        let found = message(async_parallel_for!(
            0..200,
            [&mut x],
            |i| {
                let last = if i == 77 { 7 } else { 39 };
                let [a, b, c] = x.many_mut([7, 8 + i % 20, last]);
                std::mem::swap(a, b);
                *c += 1;
            },
            strategy = strategy,
            parts = 3
        ));
        assert_eq!(found, (77, "element 7 is asked for twice at once".to_string()));
        assert!(x.iter().unwrap().eq(0..40), "{strategy}");
    }
}

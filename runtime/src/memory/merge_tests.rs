//! Uniting copies, beside arithmetic on values.
#![allow(unsafe_code)]

use super::*;
use crate::memory::element_ops::{ops_of, row_ops};

fn address<T>(element: &T) -> *const u8 {
    (&raw const *element).cast()
}

fn merged<T: Merge + Copy>(base: T, locals: &[T], how: Union) -> T {
    let mut united = base;
    let locals: Vec<_> = locals.iter().map(address).collect();
    // SAFETY: elements of this function's own.
    unsafe {
        of_elements::<T>().merge((&raw mut united).cast(), address(&base), &locals, (how, &mut Scratch::default()));
    }
    united
}

fn of_elements<T: Merge>() -> Merging {
    Merging::new(merge_ops_of::<T>(), ops_of::<T>()).unwrap()
}

/// Rows of some width, beside arrays as long.
fn rows_are_as_arrays<T: Merge + Copy + PartialEq + std::fmt::Debug, const N: usize>(number: impl Fn(usize) -> T) {
    let array = |seed: usize| -> [T; N] { std::array::from_fn(|k| number(seed * 31 + k * k)) };
    let (rows, arrays) =
        (Merging::new(row_merge_ops_of::<T>(), row_ops(ops_of::<T>(), N).unwrap()).unwrap(), of_elements::<[T; N]>());
    let mut scratch = Scratch::default();
    for (how, copies) in [
        (Union::Sum, 1),
        (Union::Sum, 3),
        (Union::Mean(3), 3),
        (Union::Mean(1), 1),
        (Union::Sum, 0),
        (Union::Combine, 1),
        (Union::Combine, 2),
        (Union::Combine, 3),
    ] {
        let (base, locals) = (array(1), [array(2), array(3), array(4)]);
        let locals: Vec<_> = locals[..copies].iter().map(address).collect();
        let [mut by_row, mut by_array] = [base; 2];
        // SAFETY: elements of this function's own.
        unsafe {
            rows.merge((&raw mut by_row).cast(), address(&base), &locals, (how, &mut scratch));
            arrays.merge((&raw mut by_array).cast(), address(&base), &locals, (how, &mut scratch));
            assert_eq!(by_row, by_array);
            for merging in [rows, arrays] {
                let [mut shared, mut change, mut read] = [by_row, array(9), array(10)];
                merging.change(address(&array(5)), address(&array(6)), (&raw mut change).cast());
                merging.apply_shared((&raw mut shared).cast(), address(&change));
                merging.read_shared((&raw mut shared).cast(), (&raw mut read).cast());
                let expected: [T; N] = std::array::from_fn(|k| {
                    let mut x = by_array[k];
                    x.apply(&T::change(&array(5)[k], &array(6)[k]));
                    x
                });
                assert_eq!((shared, read), (expected, expected));
                merging.write_shared((&raw mut shared).cast(), address(&base));
                assert_eq!(shared, base);
            }
        }
    }
}

#[test]
fn rows_are_united_as_arrays_are() {
    rows_are_as_arrays::<_, 1>(|k| k as f32 * 0.37);
    rows_are_as_arrays::<_, 7>(|k| k as f64 / 3.0);
    rows_are_as_arrays::<_, 16>(|k| k as i64 - 500);
    rows_are_as_arrays::<_, 37>(|k| k as u8);
    rows_are_as_arrays::<_, 100>(|k| [k as f32 * 0.1, -0.0]);
}

/// `n` elements side by side, of which copies have changed some, beside each by itself.
fn a_page_is_as_its_elements<T: Merge + Copy>(n: usize, number: impl Fn(usize) -> T) {
    let merging = of_elements::<T>();
    let bytes = |of: &[T]| -> Vec<u8> {
        // SAFETY: plain elements.
        unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), size_of_val(of)) }.to_vec()
    };
    for how in [Union::Sum, Union::Mean(3), Union::Combine] {
        let base: Vec<T> = (0..n).map(&number).collect();
        let changes = |copy: usize, k: usize| (k + copy).is_multiple_of(2 + copy) && !k.is_multiple_of(5);
        let locals: [Vec<T>; 3] = std::array::from_fn(|copy| {
            (0..n).map(|k| if changes(copy, k) { number(31 * copy + k * k + 7) } else { base[k] }).collect()
        });
        let addresses: Vec<_> = locals.iter().map(|local| local.as_ptr().cast()).collect();
        let mut page = base.clone();
        // SAFETY: elements of this function's own.
        unsafe { merging.merge_page(page.as_mut_ptr().cast(), &addresses, n, (how, &mut Scratch::default())) };
        let one = |k: usize| {
            let changed: Vec<T> =
                locals.iter().map(|local| local[k]).filter(|v| bytes(&[*v]) != bytes(&[base[k]])).collect();
            if changed.is_empty() { base[k] } else { merged(base[k], &changed, how) }
        };
        let expected: Vec<T> = (0..n).map(one).collect();
        assert_eq!(bytes(&page), bytes(&expected), "{how:?} of {n}");
    }
}

#[test]
fn pages_are_united_as_their_elements_are() {
    for n in [1, 7, 8, 13, 16, 64] {
        a_page_is_as_its_elements(n, |k| [0.0f32, -0.0, f32::INFINITY, 1e30, k as f32 * 0.37][k % 5]);
        a_page_is_as_its_elements(n, |k| k as f64 / 3.0);
        a_page_is_as_its_elements(n, |k| k as u8);
        a_page_is_as_its_elements(n, |k| k as i16 - 500);
        a_page_is_as_its_elements(n, |k| [k as f32 * 0.1, -0.0]);
        a_page_is_as_its_elements(n, |k| [k as u32, 3, 9]);
    }
}

#[test]
fn ops_of_other_elements_are_refused() {
    let row = row_ops(ops_of::<f32>(), 4).unwrap();
    for ops in [merge_ops_of::<f32>(), merge_ops_of::<[f32; 4]>(), row_merge_ops_of::<f64>()] {
        assert!(Merging::new(ops, row).is_none());
    }
    assert!(Merging::new(row_merge_ops_of::<f32>(), row).is_some());
}

#[test]
fn changes_add_up_in_order() {
    let base = [1.0f32, -2.0, 0.1];
    let locals = [[1.5, -2.0, 0.4], [0.5, 7.0, 1e9], [1.0, -2.5, -3.0]];
    let mut expected = base;
    for local in &locals {
        for k in 0..3 {
            expected[k] += local[k] - base[k];
        }
    }
    assert_eq!(merged(base, &locals, Union::Sum).map(f32::to_bits), expected.map(f32::to_bits));
    assert_eq!(merged([[10u8, 250], [0, 1]], &[[[9, 255], [0, 2]], [[8, 251], [0, 0]]], Union::Sum), [[7, 0], [0, 1]]);
    assert_eq!(merged([1u32, 2], &[], Union::Sum), [1, 2]);
}

/// Where `base + (local - base)` would be rounded, or no number at all.
#[test]
fn a_single_copy_is_taken_as_it_is() {
    for (base, local) in [(1e30f32, 0.1), (0.0, -0.0), (f32::INFINITY, 1.0), (f32::INFINITY, f32::INFINITY)] {
        assert_eq!(merged([base], &[[local]], Union::Sum)[0].to_bits(), local.to_bits());
    }
}

#[test]
fn equal_changes_average_to_one_of_them() {
    for copies in [2, 4, 8] {
        assert_eq!(merged([1.0f64, 8.0], &vec![[1.75, -8.0]; copies], Union::Mean(copies)), [1.75, -8.0]);
    }
    // A third of three is exact, while three times a rounded 1/3 would not be.
    assert_eq!(merged([0.0f32; 4], &[[3.0, 0.75, -9.0, 1e-3]; 3], Union::Mean(3))[..3], [3.0, 0.75, -9.0]);
    assert_eq!(merged(100i32, &[108, 96], Union::Mean(2)), 102);
    assert_eq!(merged(7u64, &[3, 3, 3, 3], Union::Mean(4)), 3);
    // No copy's change makes up a whole share by itself.
    assert_eq!(merged([10u64, 7, 0], &[[11, 6, 1], [11, 6, 0]], Union::Mean(2)), [11, 6, 0]);
    assert_eq!(merged([100i32; 3], &[[103, 98, 101], [99, 101, 99]], Union::Mean(2)), [101, 100, 100]);
    assert_eq!(merged([0i8, -128], &[[-1, 127], [-1, 127], [-2, 126]], Union::Mean(3)), [-1, -129i16 as i8]);
    assert_eq!(merged([u8::MAX, 1], &[[99, 3], [99, 3]], Union::Mean(1000)), [u8::MAX, 1]);
    assert_eq!(merged(i128::MAX, &[i128::MIN, i128::MIN], Union::Mean(2)), i128::MIN);
}

/// One copy of several, as when a worker sends its part of the average.
#[test]
fn integers_are_shared_towards_zero() {
    macro_rules! shared {
        ($($change:literal $t:ty, $copies:expr => $part:expr;)*) => {$(
            let mut change = $change as $t;
            change.share($copies);
            assert_eq!(change, $part as $t, "{} of {}", $change, $copies);
        )*};
    }
    shared! {
        7 i32, 2 => 3;
        -7i32 i32, 2 => -3i32;
        -7i32 u32, 2 => -3i32;
        -128i8 i8, 1000 => 0;
        100 u8, 3 => 33;
        -100i128 i128, 7 => -14i128;
        5 usize, 0 => 5;
    }
}

#[test]
fn changes_travel_by_themselves() {
    let (base, local) = ([3u16, 4], [5u16, 1]);
    let merging = of_elements::<[u16; 2]>();
    // Addresses of buffers need not be aligned; that of a shared element is.
    let mut change = [0u8; 5];
    let mut element = [100u16, 200];
    // SAFETY: elements of this function's own, and room for one.
    unsafe {
        let out = change.as_mut_ptr().add(1);
        merging.change(address(&base), address(&local), out);
        merging.apply_shared((&raw mut element).cast(), out);
        assert_eq!(element, [102, 197]);
        merging.read_shared((&raw mut element).cast(), out);
        merging.write_shared((&raw mut element).cast(), address(&base));
    }
    assert_eq!((&change[1..], element), (&[102, 197].map(u16::to_ne_bytes).concat()[..], base));
}

/// Copies may be united in place of one of them.
#[test]
fn the_result_may_replace_base_or_local() {
    let merging = of_elements::<[f64; 2]>();
    let (mut base, mut local, other) = ([1.0, 2.0], [2.0, 2.0], [1.0, 5.0]);
    // SAFETY: elements of this function's own.
    unsafe {
        let at = (&raw mut local).cast::<u8>();
        merging.merge(at, address(&base), &[at.cast_const(), address(&other)], (Union::Sum, &mut Scratch::default()));
        assert_eq!(local, [2.0, 5.0]);
        let at = (&raw mut base).cast::<u8>();
        merging.merge(at, at, &[address(&other), address(&other)], (Union::Mean(2), &mut Scratch::default()));
    }
    assert_eq!(base, [1.0, 5.0]);
}

/// What changes have in common counts once, and what they haven't is added up.
#[test]
fn changes_are_combined() {
    let base = [1.0f32, 10.0, 0.0];
    let from = |change: [f32; 3]| -> [f32; 3] { std::array::from_fn(|k| base[k] + change[k]) };
    let combined = |changes: &[[f32; 3]]| {
        let locals: Vec<[f32; 3]> = changes.iter().map(|&change| from(change)).collect();
        merged(base, &locals, Union::Combine)
    };
    for copies in 2..9 {
        assert_eq!(combined(&vec![[2.0, 0.0, 4.0]; copies]), from([2.0, 0.0, 4.0]), "{copies} equal ones");
    }
    assert_eq!(combined(&[[2.0, 0.0, 0.0], [0.0, -4.0, 0.0], [0.0, 0.0, 8.0]]), from([2.0, -4.0, 8.0]));
    assert_eq!(combined(&[[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]), base);
    // Of one in the same direction and of another length the means count: (1 - 3/2) 1 + (1 - 1/6) 3.
    assert_eq!(combined(&[[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]), from([2.0, 0.0, 0.0]));
    // The first two, then what they came to and the third.
    assert_eq!(combined(&[[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [4.0, 0.0, 0.0]]), from([3.0, 0.0, 0.0]));
    assert_eq!(combined(&[[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [4.0, 0.0, 0.0], [4.0, 0.0, 0.0]]), from([3.0, 0.0, 0.0]));
}

/// A length that no number stands for is none to divide by: such changes are added up.
#[test]
fn changes_without_an_ordinary_length_are_added_up() {
    for (a, b) in [([0.0, -0.0], [3.0, 1.0]), ([1e-170, 0.0], [1e-170, 2e-170]), ([1e200, 0.0], [1.0, 2.0])] {
        let sum: [f64; 2] = std::array::from_fn(|k| a[k] + b[k]);
        assert_eq!(merged([0.0f64; 2], &[a, b], Union::Combine), sum);
    }
    assert!(merged([0.0f32], &[[f32::NAN], [1.0]], Union::Combine)[0].is_nan());
    // Of `f32` every length is one of `f64`.
    assert_eq!(merged([0.0f32, 0.0], &[[1e-38, 0.0], [1e-38, 0.0]], Union::Combine), [1e-38, 0.0]);
    assert_eq!(merged([0.0f32, 0.0], &[[1e38, 0.0], [1e38, 0.0]], Union::Combine), [1e38, 0.0]);
}

#[test]
fn what_does_not_combine_is_added_up() {
    assert_eq!(merged([5u32, 7], &[[6, 7], [8, 9], [5, 8]], Union::Combine), [9, 10]);
    assert!(!of_elements::<[u64; 3]>().combines() && of_elements::<[[f64; 2]; 3]>().combines());
}

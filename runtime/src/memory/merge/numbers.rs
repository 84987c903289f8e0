//! How changes of numbers, and of arrays of them, are united.

use super::Merge;
use crate::memory::combine;

macro_rules! floats {
    ($($t:ident $combine:ident;)*) => {$(
        impl Merge for $t {
            #[inline(always)]
            fn change(base: &Self, local: &Self) -> Self {
                local - base
            }
            #[inline(always)]
            fn apply(&mut self, change: &Self) {
                *self += change;
            }
            #[inline(always)]
            fn share(&mut self, copies: usize) {
                *self /= copies as $t;
            }
            const COMBINES: bool = true;
            fn combine(change: &mut [Self], other: &[Self]) {
                combine::$combine(change, other);
            }
        }
    )*};
}
floats! { f32 f32s; f64 f64s; }

macro_rules! integers {
    ($($t:ty, $signed:ty;)*) => {$(
        /// Changes are added with wrap-around. When models are averaged, changes are taken as signed, and the sum of those of all
        /// copies is divided towards zero.
        impl Merge for $t {
            #[inline(always)]
            fn change(base: &Self, local: &Self) -> Self {
                local.wrapping_sub(*base)
            }
            #[inline(always)]
            fn apply(&mut self, change: &Self) {
                *self = self.wrapping_add(*change);
            }
            #[inline(always)]
            fn share(&mut self, copies: usize) {
                let change = *self as $signed;
                *self = match <$signed>::try_from(copies) {
                    Ok(copies) => change.checked_div(copies).unwrap_or(change) as $t,
                    // More copies than the type can count. Its least value can make up 1 there; never mind.
                    Err(_) => 0,
                };
            }
            const SHARES_TOGETHER: bool = true;
            fn share_all(changes: &mut [Self], copies: usize) {
                let copies = copies.max(1) as i128;
                let (mut mean, mut rest) = (0i128, 0);
                for change in &mut *changes {
                    let whole = std::mem::take(change) as $signed as i128;
                    (mean, rest) = (mean.wrapping_add(whole / copies), rest + whole % copies);
                }
                (mean, rest) = (mean.wrapping_add(rest / copies), rest % copies);
                // Towards zero.
                if mean.signum() == -rest.signum() {
                    mean += rest.signum();
                }
                if let Some(first) = changes.first_mut() {
                    *first = mean as $t;
                }
            }
        }
    )*};
}
integers! {
    u8, i8; i8, i8; u16, i16; i16, i16; u32, i32; i32, i32; u64, i64; i64, i64; u128, i128; i128, i128;
    usize, isize; isize, isize;
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    #[inline(always)]
    fn change(base: &Self, local: &Self) -> Self {
        std::array::from_fn(|k| T::change(&base[k], &local[k]))
    }
    #[inline(always)]
    fn apply(&mut self, change: &Self) {
        for (element, change) in self.iter_mut().zip(change) {
            element.apply(change);
        }
    }
    #[inline(always)]
    fn share(&mut self, copies: usize) {
        for element in self {
            element.share(copies);
        }
    }
    const SHARES_TOGETHER: bool = T::SHARES_TOGETHER;
    fn share_all(changes: &mut [Self], copies: usize) {
        if !T::SHARES_TOGETHER {
            return changes.iter_mut().for_each(|change| change.share(copies));
        }
        for k in 0..N {
            let mut of_one: Vec<T> = changes.iter().map(|change| change[k].clone()).collect();
            T::share_all(&mut of_one, copies);
            changes.iter_mut().zip(of_one).for_each(|(change, share)| change[k] = share);
        }
    }
    const COMBINES: bool = T::COMBINES;
    /// The numbers of all arrays of a row are one row.
    fn combine(change: &mut [Self], other: &[Self]) {
        T::combine(change.as_flattened_mut(), other.as_flattened());
    }
}

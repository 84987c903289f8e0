//! A loop's captures together.
//!
//! # Why this is sound
//! By rule 1 of [`super`]: each view is made of the slot of its own capture.
#![allow(unsafe_code)]

use std::ops::Range;

use super::{Capture, Captured};
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::slot::Slot;
use crate::memory::merge::MergeOps;
use crate::session::error::Result;

/// A tuple of captures.
#[doc(hidden)]
pub trait Handles {
    /// What the loop body gets.
    type Views<'v>;
    /// Whether the loop may run by tiles.
    #[doc(hidden)]
    const IN_TILES: bool = false;
    /// Whether iterations that own what is indexed near them are worth a loop of their own.
    #[doc(hidden)]
    const HAS_NEAR: bool = false;
    /// Whether reads of all elements of a DDS are.
    #[doc(hidden)]
    const HAS_WHOLE: bool = false;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn describe(&mut self) -> Vec<Captured>;
    /// # Safety
    /// As for every single capture; there is a slot for each, and then for each key index.
    #[doc(hidden)]
    unsafe fn views<'v>(slots: &'v [Slot<'v>]) -> Self::Views<'v>;
    #[doc(hidden)]
    fn begin(views: &mut Self::Views<'_>, slots: &[Slot<'_>]);
    #[doc(hidden)]
    fn enter(views: &mut Self::Views<'_>, place: usize, first: usize, n: usize) -> Range<usize>;
    #[doc(hidden)]
    fn turn_to(views: &mut Self::Views<'_>, place: usize, i: usize);
    #[doc(hidden)]
    #[inline(always)]
    fn are_fixed(_views: &Self::Views<'_>) -> bool {
        false
    }
    #[doc(hidden)]
    #[inline(always)]
    fn turn_own(views: &mut Self::Views<'_>, place: usize, i: usize) {
        Self::turn_to(views, place, i);
    }
    #[doc(hidden)]
    #[inline(always)]
    fn are_scattered(_views: &Self::Views<'_>) -> bool {
        false
    }
    #[doc(hidden)]
    #[inline(always)]
    fn fetch_own(_views: &Self::Views<'_>, _i: usize) {}
    #[doc(hidden)]
    fn set_near(views: &mut Self::Views<'_>, near: bool);
    #[doc(hidden)]
    #[inline(always)]
    fn may_be_whole(_views: &Self::Views<'_>) -> bool {
        false
    }
    #[doc(hidden)]
    #[inline(always)]
    fn set_whole(_views: &mut Self::Views<'_>, _whole: bool) {}
    #[doc(hidden)]
    fn step(views: &mut Self::Views<'_>, i: usize);
    #[doc(hidden)]
    fn turn_to_row(_views: &mut Self::Views<'_>, _k: usize) {}
    #[doc(hidden)]
    fn finish(views: &Self::Views<'_>, slots: &[Slot<'_>]);
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn merges() -> Vec<Option<&'static MergeOps>>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn new_entry_ops() -> Vec<Option<&'static NewEntryOps>> {
        Vec::new()
    }
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn take_new_entries(&mut self, _: Vec<Option<NewEntries>>) -> Result<()> {
        Ok(())
    }
}

macro_rules! handles {
    ($(($($name:ident $n:tt)*))*) => {$(
        impl<$($name: Capture),*> Handles for ($($name,)*) {
            type Views<'v> = ($($name::View<'v, $n>,)*);
            const IN_TILES: bool = false $(|| $name::IN_TILES)*;
            const HAS_NEAR: bool = false $(|| $name::HAS_NEAR)*;
            const HAS_WHOLE: bool = false $(|| $name::HAS_WHOLE)*;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Vec<Captured> {
                #[allow(unused_mut)]
                let mut captured = vec![$(self.$n.describe()),*];
                $(captured.extend(self.$n.key_indexes());)*
                captured
            }

            #[allow(unused_variables, clippy::unused_unit)]
            #[inline(always)]
            unsafe fn views<'v>(slots: &'v [Slot<'v>]) -> Self::Views<'v> {
                #[allow(unused_mut)]
                let mut key_indexes = &slots[<[usize]>::len(&[$($n),*])..];
                ($({
                    let own = key_indexes.split_off(..$name::KEY_INDEXES).unwrap_or(&[]);
                    // SAFETY: rule 1; key indexes come in the order of the captures that they belong to.
                    unsafe { $name::view_beside::<$n>(&slots[$n], own) }
                },)*)
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn begin(views: &mut Self::Views<'_>, slots: &[Slot<'_>]) {
                $($name::begin::<$n>(&mut views.$n, &slots[$n]);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn enter(views: &mut Self::Views<'_>, place: usize, first: usize, n: usize) -> Range<usize> {
                #[allow(unused_mut)]
                let mut all = 0..usize::MAX;
                $({
                    let own = $name::enter::<$n>(&mut views.$n, place, first, n);
                    all = all.start.max(own.start)..all.end.min(own.end);
                })*
                all
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn turn_to(views: &mut Self::Views<'_>, place: usize, i: usize) {
                $($name::turn_to::<$n>(&mut views.$n, place, i);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn are_fixed(views: &Self::Views<'_>) -> bool {
                true $(&& $name::is_fixed::<$n>(&views.$n))*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn turn_own(views: &mut Self::Views<'_>, place: usize, i: usize) {
                $($name::turn_own::<$n>(&mut views.$n, place, i);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn are_scattered(views: &Self::Views<'_>) -> bool {
                false $(|| $name::is_scattered::<$n>(&views.$n))*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn fetch_own(views: &Self::Views<'_>, i: usize) {
                $($name::fetch_own::<$n>(&views.$n, i);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn set_near(views: &mut Self::Views<'_>, near: bool) {
                $($name::set_near::<$n>(&mut views.$n, near);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn may_be_whole(views: &Self::Views<'_>) -> bool {
                true $(&& $name::may_be_whole::<$n>(&views.$n))*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn set_whole(views: &mut Self::Views<'_>, whole: bool) {
                $($name::set_whole::<$n>(&mut views.$n, whole);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn step(views: &mut Self::Views<'_>, i: usize) {
                $($name::step::<$n>(&mut views.$n, i);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn turn_to_row(views: &mut Self::Views<'_>, k: usize) {
                $($name::turn_to_row::<$n>(&mut views.$n, k);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn finish(views: &Self::Views<'_>, slots: &[Slot<'_>]) {
                $($name::finish::<$n>(&views.$n, &slots[$n]);)*
            }

            #[allow(private_interfaces)]
            fn merges() -> Vec<Option<&'static MergeOps>> {
                let key_indexes = 0 $(+ $name::KEY_INDEXES)*;
                [$($name::merge()),*].into_iter().chain(std::iter::repeat_n(None, key_indexes)).collect()
            }

            #[allow(private_interfaces)]
            fn new_entry_ops() -> Vec<Option<&'static NewEntryOps>> {
                vec![$($name::new_entry_ops()),*]
            }

            #[allow(private_interfaces)]
            #[allow(unused_mut, unused_variables)]
            fn take_new_entries(&mut self, mut new: Vec<Option<NewEntries>>) -> Result<()> {
                $(if let Some(new) = new.get_mut($n).and_then(Option::take) {
                    self.$n.take_new_entries(new)?;
                })*
                Ok(())
            }
        }
    )*};
}
handles! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 G 5)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11)
}

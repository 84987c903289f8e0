//! Changing every element in place: a loop whose iterations touch one element each.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::{LazyLock, Mutex};

use crate::body::capture::{Capture, Captured, Handles, Named, Write};
use crate::body::index::Here;
use crate::body::slot::Slot;
use crate::body::value::Values;
use crate::dds::dmap::{Bucket, DMap};
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::loops::call::async_for;
use crate::memory::element::Element;
use crate::memory::merge::MergeOps;
use crate::session::error::Result;
use crate::session::locked;
use crate::session::options::{LoopOptions, Site, range};

/// Where the name of a source file lies, a line, a column, and where the captures' names lie: calls that a macro writes share the rest.
type SourcePosition = (usize, u32, u32, usize);

/// The site of a call: one for each place in the program that has a `transform`.
fn site_of(at: &'static Location<'static>, captures: &'static [&'static str]) -> &'static Site {
    static SITES: LazyLock<Mutex<HashMap<SourcePosition, &'static Site>>> = LazyLock::new(Mutex::default);
    let key = (at.file().as_ptr().addr(), at.line(), at.column(), captures.as_ptr().addr());
    locked(&SITES).entry(key).or_insert_with(|| {
        let names: &[_] = Vec::leak([&["elements"], captures].concat());
        Box::leak(Box::new(Site::new(at.file(), at.line(), at.column(), names)))
    })
}

/// The DDS that is transformed, and what the closure captures besides.
struct Among<W, H>(W, H);

impl<W: Capture, H: Handles> Handles for Among<W, H> {
    type Views<'v> = (W::View<'v, 0>, H::Views<'v>);

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Vec<Captured> {
        std::iter::once(self.0.describe()).chain(self.1.describe()).collect()
    }

    #[allow(unsafe_code)]
    unsafe fn views<'v>(slots: &'v [Slot<'v>]) -> Self::Views<'v> {
        // SAFETY: the caller's promise; slots come in the order of the descriptions.
        unsafe { (W::view::<0>(&slots[0]), H::views(&slots[1..])) }
    }

    #[inline(always)]
    fn begin(views: &mut Self::Views<'_>, slots: &[Slot<'_>]) {
        W::begin::<0>(&mut views.0, &slots[0]);
        H::begin(&mut views.1, &slots[1..]);
    }

    #[inline(always)]
    fn enter(views: &mut Self::Views<'_>, place: usize, first: usize, n: usize) -> Range<usize> {
        let (own, rest) = (W::enter::<0>(&mut views.0, place, first, n), H::enter(&mut views.1, place, first, n));
        own.start.max(rest.start)..own.end.min(rest.end)
    }

    #[inline(always)]
    fn turn_to(views: &mut Self::Views<'_>, place: usize, i: usize) {
        W::turn_to::<0>(&mut views.0, place, i);
        H::turn_to(&mut views.1, place, i);
    }

    #[inline(always)]
    fn set_near(views: &mut Self::Views<'_>, near: bool) {
        W::set_near::<0>(&mut views.0, near);
        H::set_near(&mut views.1, near);
    }

    #[inline(always)]
    fn step(views: &mut Self::Views<'_>, i: usize) {
        W::step::<0>(&mut views.0, i);
        H::step(&mut views.1, i);
    }

    #[inline(always)]
    fn finish(views: &Self::Views<'_>, slots: &[Slot<'_>]) {
        W::finish::<0>(&views.0, &slots[0]);
        H::finish(&views.1, &slots[1..]);
    }

    #[allow(private_interfaces)]
    fn merges() -> Vec<Option<&'static MergeOps>> {
        Vec::new()
    }
}

macro_rules! transforms {
    ($dds:ident, $element:ty, $example:literal) => {
        impl<T: Element> $dds<T> {
            /// Changes every element in place; the elements of a matrix are its rows. If the closure panics, nothing has changed.
            ///
            #[doc = $example]
            ///
            /// # Cost
            /// That of an `async_parallel_for!` over the elements, which this is.
            ///
            /// # Errors
            /// As the loop's.
            #[track_caller]
            pub fn transform<F: Fn(&mut $element) + Copy + Sync + 'static>(&mut self, f: F) -> Result<()> {
                self.transform_with((), ((), &[]), move |(), (), element| f(element))
            }

            /// `transform` with captures: `with!([x], y.transform(...))`.
            ///
            /// # Errors
            /// As the loop's.
            #[doc(hidden)]
            #[track_caller]
            pub fn transform_with<V, H, F>(&mut self, values: V, handles: Named<H>, f: F) -> Result<()>
            where
                V: Values,
                H: Handles,
                F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'t mut $element) + Copy + Sync + 'static,
            {
                let ((handles, names), bounds) = (handles, range(0..self.len()));
                let site = site_of(Location::caller(), names);
                let handles = Among(Write::<_, 1>(self), handles);
                async_for(
                    site,
                    LoopOptions::new().of_operator(),
                    bounds,
                    values,
                    handles,
                    |_, _| (),
                    move |values, (elements, views), (), i| {
                        f(values, views, &mut elements[Here(i)]);
                    },
                )
                .map(drop)
            }
        }
    };
}
transforms!(
    DVector,
    T,
    "```
use stradsap_runtime::{DVector, Session};

let session = Session::builder().threads(1).build()?;
let mut x = DVector::from_fn(&session, 4, |i| i as f32)?;
x.transform(|x| *x = x.sqrt())?;
assert_eq!(x.get(3)?, 3f32.sqrt());
# Ok::<(), stradsap_runtime::Error>(())
```"
);
transforms!(
    DMatrix,
    [T],
    "```
use stradsap_runtime::{DMatrix, Session};

let session = Session::builder().threads(1).build()?;
let mut m = DMatrix::from_vec(&session, 2, vec![3.0, 4.0, 5.0, 12.0])?;
m.transform(|row| {
    let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    row.iter_mut().for_each(|x| *x /= norm);
})?;
assert_eq!(m.get(0)?, [0.6, 0.8]);
# Ok::<(), stradsap_runtime::Error>(())
```"
);

impl<K: Element, V: Element> DMap<K, V> {
    /// Changes every value in place. If the closure panics, nothing has changed.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMap, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let mut ages = DMap::from_entries(&session, [(1u32, 36), (2, 41)])?;
    /// ages.transform(|id, age| *age += *id as i32)?;
    /// assert_eq!(ages.get(&2)?, Some(43));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As those of an `async_parallel_for!`, which this is.
    #[track_caller]
    pub fn transform<F: Fn(&K, &mut V) + Copy + Sync + 'static>(&mut self, f: F) -> Result<()> {
        self.buckets
            .transform(move |bucket: &mut Bucket<K, V>| bucket.iter_mut().for_each(|(key, value)| f(key, value)))
    }

    /// [`transform`](DMap::transform) with captures: `with!([x], map.transform(...))`.
    ///
    /// # Errors
    /// As those of an `async_parallel_for!`.
    #[doc(hidden)]
    #[track_caller]
    pub fn transform_with<W, H, F>(&mut self, values: W, handles: Named<H>, f: F) -> Result<()>
    where
        W: Values,
        H: Handles,
        F: for<'a, 'v, 't> Fn(W::Refs<'v>, &'a mut H::Views<'v>, &'t K, &'t mut V) + Copy + Sync + 'static,
    {
        self.buckets.transform_with(values, handles, move |values, views, bucket: &mut Bucket<K, V>| {
            bucket.iter_mut().for_each(|(key, value)| f(values, views, key, value));
        })
    }
}

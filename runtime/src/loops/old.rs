//! `x.old`: DVectors and DMatrices that a loop writes, as they were before it.
//!
//! A copy is a DDS like any other, which the call captures to be read; nobody writes it, so it makes nothing conflict. It stays with
//! the session as long as what it is of is there, so that plans that know it are used again. In one process it also serves to undo
//! the loop, which saves nothing else of what it is of. A loop of its own brings it up to
//! date: on all threads, on workers where the elements are, and once more where a loss has the program's loops replayed.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::body::capture::{ReadCapture, indexed_near, read, write};
use crate::body::index::Here;
use crate::body::inference::{typed_body, typed_scratch};
use crate::body::panics;
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::dds::elements::{Elements, RawVector};
use crate::loops::call::async_for;
use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::session::error::{Error, LoopProblem, Result};
use crate::session::options::{LoopOptions, Site, range};
use crate::session::slots::Slot;
use crate::session::{SessionInner, locked};

/// What `x` may be where a body says `x.old`: a DVector or a DMatrix, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read as it was before the loop",
    label = "only DVectors and DMatrices have `old`"
)]
pub trait HasOld {
    /// What has the elements.
    type Dds: Renewed;
    #[doc(hidden)]
    fn vector(&self) -> &Self::Dds;
}

impl<T: Element> HasOld for DVector<T> {
    type Dds = Self;
    fn vector(&self) -> &Self {
        self
    }
}

impl<T: Element> HasOld for DMatrix<T> {
    type Dds = Self;
    fn vector(&self) -> &Self {
        self
    }
}

impl<C: HasOld + ?Sized> HasOld for &C {
    type Dds = C::Dds;
    fn vector(&self) -> &C::Dds {
        (**self).vector()
    }
}

impl<C: HasOld + ?Sized> HasOld for &mut C {
    type Dds = C::Dds;
    fn vector(&self) -> &C::Dds {
        (**self).vector()
    }
}

/// The DVector or DMatrix of a capture of which the body says `x.old`.
pub fn to_copy<C: HasOld + ?Sized>(capture: &C) -> &C::Dds {
    capture.vector()
}

/// What a copy of can be kept, and brought up to date.
pub trait Renewed: Send + Sync + Sized + 'static {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn raw(&self) -> &RawVector;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn of_copied(x: &RawVector, buffer: RawBuf) -> Self;
    /// Makes a copy equal to what it is of, which has as many elements.
    #[doc(hidden)]
    fn bring_up_to_date(&self, site: &'static Site, copy: &mut Self) -> Result<()>;
}

macro_rules! have_old {
    ($($dds:ident: $raw:ident, $clone:ident;)*) => {$(
        impl<T: Element> Renewed for $dds<T> {
            #[allow(private_interfaces)]
            fn raw(&self) -> &RawVector {
                &self.$raw
            }

            #[allow(private_interfaces)]
            fn of_copied(x: &RawVector, buffer: RawBuf) -> Self {
                let mut copy = Self::of_buffer(Arc::clone(x.session()), buffer);
                copy.$raw.set_copy_of(x.id());
                copy
            }

            fn bring_up_to_date(&self, site: &'static Site, copy: &mut Self) -> Result<()> {
                let options = LoopOptions::new().label(site.name(1)).unsaved().of_operator();
                let range = range(0..self.len());
                let handles = (indexed_near::<1, _>(read(self)), indexed_near::<1, _>(write(copy)));
                let scratch = typed_scratch(&(), &handles, |(), _| ());
                let body = typed_body(&range, &(), &handles, &scratch, |(), (x, copy), (), i| {
                    copy[Here(i)].$clone(&x[Here(i)]);
                });
                async_for(site, options, range, (), handles, scratch, body).map(drop)
            }
        }
    )*};
}
have_old! {
    DVector: elements, clone_from;
    DMatrix: rows, clone_from_slice;
}

/// The copies of a session, by what each is of.
#[derive(Default)]
struct Copies(Mutex<BTreeMap<u64, Box<dyn Any + Send + Sync>>>);

impl Slot for Copies {
    fn forget(&self, dds: u64) {
        let copy = locked(&self.0).remove(&dds);
        drop(copy);
    }
}

/// What a DVector or a DMatrix held before the loop.
pub struct Old<D: Renewed> {
    copy: Option<D>,
    of: u64,
    session: Arc<SessionInner>,
}

impl<D: Renewed> ReadCapture for Old<D> {
    type Dds = D;
    fn dds(&self) -> &D {
        match &self.copy {
            Some(copy) => copy,
            None => unreachable!("it is given back when this is dropped"),
        }
    }
}

impl<D: Renewed> Drop for Old<D> {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            locked(&self.session.slot::<Copies>().0).insert(self.of, Box::new(copy));
        }
    }
}

/// A copy of what a DVector or a DMatrix holds now. The site's captures are the DDS and its copy.
///
/// # Errors
/// Those of a loop that clones each element.
pub fn before_loop<D: Renewed>(site: &'static Site, x: &D) -> Result<Old<D>> {
    if panics::inside_body() {
        return Err(Error::Loop { site: site.to_string(), problem: LoopProblem::Nested });
    }
    let raw = x.raw();
    let session = Arc::clone(raw.session());
    let kept = locked(&session.slot::<Copies>().0).remove(&raw.id());
    let copy = match kept.and_then(|kept| kept.downcast::<D>().ok()) {
        Some(mut copy) => {
            x.bring_up_to_date(site, &mut copy)?;
            *copy
        }
        None => D::of_copied(raw, first_copy(site, raw)?),
    };
    Ok(Old { copy: Some(copy), of: raw.id(), session })
}

fn first_copy(site: &'static Site, x: &RawVector) -> Result<RawBuf> {
    match x.elements(0..x.len())? {
        Elements::Fetched(buffer) => Ok(buffer),
        Elements::Here(buffer, _) => panics::caught(|| buffer.copy()).map_err(|note| Error::Panic {
            site: site.to_string(),
            iteration: 0,
            message: note.message,
            location: note.location,
        }),
    }
}

//! `x.old`: DVectors that a loop writes, as they were before it.
//!
//! A copy is a DVector like any other, which the call captures to be read; nobody writes it, so it makes nothing conflict. It stays with
//! the session as long as the DVector is there, so that plans that know it are used again. A loop of its own brings it up to
//! date: on all threads, on workers where the elements are, and once more where a loss has the program's loops replayed.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::body::capture::{ReadCapture, indexed_near, read, write};
use crate::body::index::Here;
use crate::body::panics;
use crate::body::task::{typed_body, typed_scratch};
use crate::dds::dvector::DVector;
use crate::dds::elements::Elements;
use crate::loops::call::async_for;
use crate::memory::element::Element;
use crate::session::error::{Error, LoopProblem, Result};
use crate::session::options::{LoopOptions, Site, range};
use crate::session::slots::Slot;
use crate::session::{SessionInner, locked};

/// What `x` may be where a body says `x.old`: a DVector, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read as it was before the loop",
    label = "only DVectors have `old`"
)]
pub trait HasOld {
    /// Its elements.
    type Element: Element;
    #[doc(hidden)]
    fn vector(&self) -> &DVector<Self::Element>;
}

impl<T: Element> HasOld for DVector<T> {
    type Element = T;
    fn vector(&self) -> &DVector<T> {
        self
    }
}

impl<C: HasOld + ?Sized> HasOld for &C {
    type Element = C::Element;
    fn vector(&self) -> &DVector<C::Element> {
        (**self).vector()
    }
}

impl<C: HasOld + ?Sized> HasOld for &mut C {
    type Element = C::Element;
    fn vector(&self) -> &DVector<C::Element> {
        (**self).vector()
    }
}

/// The DVector of a capture of which the body says `x.old`.
pub fn to_copy<C: HasOld + ?Sized>(capture: &C) -> &DVector<C::Element> {
    capture.vector()
}

/// The copies of a session, by the DVector that each is of.
#[derive(Default)]
struct Copies(Mutex<BTreeMap<u64, Box<dyn Any + Send + Sync>>>);

impl Slot for Copies {
    fn forget(&self, dds: u64) {
        let copy = locked(&self.0).remove(&dds);
        drop(copy);
    }
}

/// What a DVector held before the loop.
pub struct Old<T: 'static + Send + Sync> {
    copy: Option<DVector<T>>,
    of: u64,
    session: Arc<SessionInner>,
}

impl<T: 'static + Send + Sync> ReadCapture for Old<T> {
    type Dds = DVector<T>;
    fn dds(&self) -> &DVector<T> {
        match &self.copy {
            Some(copy) => copy,
            None => unreachable!("it is given back when this is dropped"),
        }
    }
}

impl<T: 'static + Send + Sync> Drop for Old<T> {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            locked(&self.session.slot::<Copies>().0).insert(self.of, Box::new(copy));
        }
    }
}

/// A copy of what a DVector holds now. The site's captures are the DVector and its copy.
///
/// # Errors
/// Those of a loop that clones each element.
pub fn before_loop<T: Element>(site: &'static Site, x: &DVector<T>) -> Result<Old<T>> {
    if panics::inside_body() {
        return Err(Error::Loop { site: site.to_string(), problem: LoopProblem::Nested });
    }
    let session = Arc::clone(x.session());
    let kept = locked(&session.slot::<Copies>().0).remove(&x.id());
    let copy = match kept.and_then(|kept| kept.downcast::<DVector<T>>().ok()) {
        Some(mut copy) => {
            bring_up_to_date(site, x, &mut copy)?;
            *copy
        }
        None => first_copy(site, x)?,
    };
    Ok(Old { copy: Some(copy), of: x.id(), session })
}

fn first_copy<T: Element>(site: &'static Site, x: &DVector<T>) -> Result<DVector<T>> {
    let buffer = match x.elements(0..x.len())? {
        Elements::Fetched(buffer) => buffer,
        Elements::Here(buffer, _) => panics::caught(|| buffer.copy()).map_err(|note| Error::Panic {
            site: site.to_string(),
            iteration: 0,
            message: note.message,
            location: note.location,
        })?,
    };
    Ok(DVector::of_buffer(Arc::clone(x.session()), buffer))
}

fn bring_up_to_date<T: Element>(site: &'static Site, x: &DVector<T>, copy: &mut DVector<T>) -> Result<()> {
    let options = LoopOptions::new().label(site.name(1)).unsaved();
    let range = range(0..x.len());
    let handles = (indexed_near::<1, _>(read(x)), indexed_near::<1, _>(write(copy)));
    let scratch = typed_scratch(&(), &handles, |(), _| ());
    let body = typed_body(&range, &(), &handles, &scratch, |(), (x, copy), (), i| {
        copy[Here(i)].clone_from(&x[Here(i)]);
    });
    async_for(site, options, range, (), handles, scratch, body).map(drop)
}

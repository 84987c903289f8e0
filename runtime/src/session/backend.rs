//! Who runs what belongs to a session: this process, or workers.
//!
//! Each floor says in a trait of its own what it asks of a backend, and finds it here by the type of that trait; so a floor
//! knows neither the floors below it nor how many processes there are. `crate::backend` has the sum of these traits.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use crate::memory::buffer::RawBuf;
use crate::session::SessionInner;
use crate::session::error::{Error, Result};

/// What DDSs ask of a backend.
pub(crate) trait ElementBackend: Send + Sync {
    /// Copies of elements, or none if this process's memory has the current ones.
    fn read(&self, dds: u64, range: Range<usize>) -> Result<Option<RawBuf>>;
    /// Where the elements of a DDS are.
    fn whereabouts(&self, dds: u64) -> Result<Whereabouts>;
    /// Brings all elements of a DDS to this process's memory. They may be changed there while what this gives lives.
    fn change(&self, dds: u64) -> Result<Box<dyn Changing + '_>>;
    /// A DDS is gone.
    fn dropped(&self, dds: u64);
    /// Refuses all work because of a DDS, for some reason; or with none no longer.
    fn owe(&self, dds: u64, problem: Option<String>);
    /// The process has a limit of memory from now on.
    fn limit_memory(&self) -> Result<()>;
    /// How many worker processes there are.
    fn workers(&self) -> usize;
    /// How many control messages were sent to them so far.
    fn control_messages(&self) -> u64;
}

/// Where the elements of a DDS are.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In this process's memory.
    Here,
    /// With workers or DDS servers: in ranges, or in an order of a loop's own until somebody asks for a range.
    InRanges,
}

/// A time in which elements may be changed; its drop ends it.
pub(crate) trait Changing {}

/// A backend, as each floor sees it.
#[derive(Default)]
pub(crate) struct Roles {
    of: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl Roles {
    /// The backend is also asked as a `B`, which is the `dyn` type of a floor's trait.
    pub(crate) fn with<B: ?Sized + Send + Sync + 'static>(mut self, backend: Arc<B>) -> Self {
        self.of.insert(TypeId::of::<B>(), Box::new(backend));
        self
    }

    fn get<B: ?Sized + Send + Sync + 'static>(&self) -> Arc<B> {
        match self.of.get(&TypeId::of::<B>()).and_then(|backend| backend.downcast_ref::<Arc<B>>()) {
            Some(backend) => Arc::clone(backend),
            None => unreachable!("`backend::roles` names every trait that a floor asks for"),
        }
    }
}

impl SessionInner {
    /// The backend, as a floor asks for it.
    pub(crate) fn backend<B: ?Sized + Send + Sync + 'static>(&self) -> Arc<B> {
        self.roles.read().unwrap_or_else(PoisonError::into_inner).get()
    }

    /// The backend, as DDSs ask for it.
    pub(crate) fn elements(&self) -> Arc<dyn ElementBackend> {
        self.backend()
    }

    /// Has worker processes run everything from here on.
    ///
    /// # Errors
    /// [`Error::Usage`] if others do already.
    pub(crate) fn hand_over(&self, roles: Roles) -> Result<()> {
        let mut current = self.roles.write().unwrap_or_else(PoisonError::into_inner);
        if current.get::<dyn ElementBackend>().workers() > 0 {
            return Err(Error::usage("this session has its workers already"));
        }
        *current = roles;
        Ok(())
    }
}

//! Results that become a DVector: in this process, or where they were made.

use std::sync::Arc;

use super::body::Travels;
use super::pipe::Flow;
use super::run::Made;
use super::stage::{Stage, unpack};
use crate::dds::chunks;
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::memory::element_ops::ops_of;
use crate::session::error::Result;

impl Flow {
    /// The items that a stage makes, in order.
    pub(super) fn store<T: Element, S: Stage + Travels>(&self, site: &str, stage: &S) -> Result<DVector<T>> {
        let session = &self.session;
        match self.operate(site, stage, |backend, operation| backend.store(operation, ops_of::<T>()))? {
            Made::Here(pieces) => {
                let made = chunks::concatenate(session, ops_of::<T>(), unpack::<T>(pieces))?;
                Ok(DVector::of_buffer(Arc::clone(session), made))
            }
            Made::Elsewhere { dds, home, len } => Ok(DVector::elsewhere(Arc::clone(session), dds, len, home)),
        }
    }
}

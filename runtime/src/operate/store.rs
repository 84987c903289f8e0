//! Results that become a DVector: in this process, or where they were made.

use std::sync::Arc;

use super::body::Travels;
use super::run::{Made, Operation, OperatorBackend};
use super::stage::{Stage, maker_of, unpack};
use crate::body::capture::Captured;
use crate::dds::chunks;
use crate::dds::dvector::DVector;
use crate::memory::element::Element;
use crate::memory::element_ops::ops_of;
use crate::session::SessionInner;
use crate::session::error::Result;

/// The items that a stage makes, in order.
pub(super) fn store<T: Element, S: Stage + Travels>(
    site: &str,
    session: &Arc<SessionInner>,
    sources: &[Captured],
    captured: &[Captured],
    len: usize,
    stage: &S,
) -> Result<DVector<T>> {
    let pack = || {
        let mut bytes = Vec::new();
        stage.encode(&mut bytes)?;
        Ok((maker_of(stage), bytes))
    };
    let operation = Operation { session, site, sources, captured, len, stage, pack: &pack };
    operation.check()?;
    match session.backend::<dyn OperatorBackend>().store(&operation, ops_of::<T>())? {
        Made::Here(pieces) => {
            let made = chunks::concatenate(session, unpack::<T>(pieces))?;
            Ok(DVector::of_buffer(Arc::clone(session), made))
        }
        Made::Elsewhere { dds, home, len } => Ok(DVector::elsewhere(Arc::clone(session), dds, len, home)),
    }
}

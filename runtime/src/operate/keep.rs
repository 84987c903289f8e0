//! Results that become a DVector: in this process, or where they were made.

use std::sync::Arc;

use super::body::Travels;
use super::run::Operation;
use super::stage::{Stage, maker_of, unpack};
use crate::body::capture::Captured;
use crate::dds::chunks;
use crate::dds::dvector::DVector;
use crate::memory::buffer::{RawBuf, ops_of};
use crate::memory::element::Element;
use crate::memory::home::Home;
use crate::session::error::Result;
use crate::session::{SessionInner, next_id};

/// The items that a stage makes, in order.
pub(super) fn keep<T: Element, S: Stage + Travels>(
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
    let Some(cluster) = session.cluster() else {
        let made = unpack::<T>(operation.run_here()?);
        return Ok(DVector::of_buffer(Arc::clone(session), chunks::gather(session, made)?));
    };
    // The elements are with the workers, until somebody asks for them.
    let (id, home) = (next_id(), Home::new(RawBuf::new(ops_of::<T>(), 0), next_id()));
    let len = cluster.operate_there(&operation, id, &home, ops_of::<T>())?;
    Ok(DVector::elsewhere(Arc::clone(session), id, len, home))
}

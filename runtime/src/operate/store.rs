//! Results that become a DVector or a map: in this process, or where they were made.

use std::sync::Arc;

use super::body::Travels;
use super::pipe::Flow;
use super::run::{Made, made_of_each};
use super::stage::{Stage, unpack};
use crate::dds::chunks;
use crate::dds::dmap::{self, Bucket, DMap, Key};
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
            Made::Elsewhere { dds, home, len, .. } => Ok(DVector::elsewhere(Arc::clone(session), dds, len, home)),
        }
    }

    /// The map whose entries a stage makes.
    pub(super) fn store_map<Q: Key, V: Element, S: Stage + Travels>(
        &self,
        site: &str,
        stage: &S,
    ) -> Result<DMap<Q, V>> {
        let (session, ops) = (&self.session, ops_of::<Bucket<Q, V>>());
        let (buckets, entries) = match self.operate(site, stage, |backend, operation| backend.store(operation, ops))? {
            Made::Here(lists) => {
                let entries = lists.iter().map(|list| list.len()).sum();
                let each = dmap::buckets_for(entries, stage.makes_map().unwrap_or(1))? / lists.len().max(1);
                let lists = made_of_each(lists, &*session.pool()?, |entries| stage.buckets(entries, each));
                let made = chunks::concatenate(session, ops, unpack::<Bucket<Q, V>>(lists))?;
                (DVector::of_buffer(Arc::clone(session), made), entries)
            }
            Made::Elsewhere { dds, home, len, items } => {
                (DVector::elsewhere(Arc::clone(session), dds, len, home), items)
            }
        };
        Ok(DMap::of_buckets(buckets, entries))
    }
}

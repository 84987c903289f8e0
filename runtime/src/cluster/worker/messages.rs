//! What other processes send a worker, and fetch from it.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use stradsap_dds_server::frame::{self, FrameError, Header, Kind};
use stradsap_dds_server::link::Link;
use stradsap_dds_server::store::Store;

use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::Node;
use crate::cluster::wire::serve::{Blobs, Local, Memory};
use crate::cluster::worker::Worker;
use crate::cluster::worker::dispatch::Room;
use crate::cluster::worker::running::Parcel;
use crate::cluster::worker::scheduled::Scheduling;
use crate::memory::reservation::Reservation;
use crate::session::timeline::{Category, task_span};

impl Local for Worker {
    fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    fn links(&self) -> &Arc<Links> {
        &self.links
    }

    fn store(&self) -> &Mutex<Store> {
        &self.store
    }

    fn memory(&self, dds: u64, range: Range<usize>) -> Option<Memory> {
        let reservation: Arc<Reservation> = self.bench.reservation(dds)?;
        if range.start > range.end || range.end > reservation.len() {
            return None;
        }
        if reservation.is_plain() {
            return Some(Memory::InPlace(reservation, range));
        }
        let mut bytes = Vec::new();
        // SAFETY: as for elements in place; the driver asks for what is here.
        #[allow(unsafe_code)]
        unsafe {
            reservation.encode_there(range, &mut bytes)?;
        }
        Some(Memory::Encoded(bytes))
    }

    fn trouble(&self, peer: Node, why: &str) {
        self.trouble.report(peer, why.to_string());
    }

    async fn ready(&self, header: &Header) {
        // A neighbour may be quicker to begin. What comes for a call that is over is not waited with.
        match header.kind {
            Kind::Part => _ = self.running(header.call).await,
            _ if Scheduling::is_one(header) => _ = self.scheduling(header.call).await,
            _ => _ = self.syncing(header.call).await,
        }
    }

    async fn message(&self, header: Header, stream: &mut Link) -> std::result::Result<(), FrameError> {
        if Scheduling::is_one(&header) {
            let Some(scheduling) = self.scheduling(header.call).await else {
                return frame::skip_payload(stream, &header).await;
            };
            let payload = frame::read_payload(stream, &header).await?;
            scheduling.take(&header, payload);
            return Ok(());
        }
        let Some(syncing) = self.syncing(header.call).await else {
            return frame::skip_payload(stream, &header).await;
        };
        let _span = task_span(Category::Receive, header.len);
        let payload = frame::read_payload(stream, &header).await?;
        syncing.take(&header, payload);
        Ok(())
    }

    async fn part(&self, header: Header, stream: &mut Link) -> std::result::Result<(), FrameError> {
        let Some(running) = self.running(header.call).await else {
            return frame::skip_payload(stream, &header).await;
        };
        let Some(&k) = u32::try_from(header.tag).ok().and_then(|transfer| running.arrivals.get(&transfer)) else {
            return frame::skip_payload(stream, &header).await;
        };
        let since = Instant::now();
        let _span = task_span(Category::Receive, header.len);
        let place = &running.blocks.ports().places[k];
        let fits = (header.dds, header.lo, header.hi) == place.label();
        let room = if fits { running.blocks.room_for(k) } else { Room::Nowhere };
        match (room, place) {
            (Room::Nowhere, _) => frame::skip_payload(stream, &header).await?,
            (Room::InPlace, Parcel::Part { reservation, range, .. }) if reservation.is_plain() => {
                // SAFETY: the blocks that used what lies there have ended, and those that wait for this part start
                // only when it has arrived.
                #[allow(unsafe_code)]
                let into = unsafe { reservation.bytes_mut(range.clone()) };
                match frame::read_payload_into(stream, &header, into).await {
                    Ok(()) => running.blocks.arrived(k),
                    Err(error) => {
                        running.blocks.broke_off(k);
                        return Err(error);
                    }
                }
            }
            (Room::InPlace | Room::Aside, _) => match frame::read_payload(stream, &header).await {
                Ok(bytes) => running.blocks.arrived_aside(k, bytes),
                Err(error) => {
                    running.blocks.broke_off(k);
                    return Err(error);
                }
            },
        }
        running.received.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        Ok(())
    }
}

//! What it costs to make frames of parts and parts of frames.
//!
//! Plain elements travel as their memory, so what is left of serialisation is a header and a checksum for each part,
//! on both sides. It is measured apart from the network: frames are written to memory and read from it by the very
//! functions that workers use, on one thread. The copies that this makes stand for the system's own between memory and
//! socket, so the figure is rather too high.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use anyhow::{Result, anyhow};
use stradsap_dds_server::frame::{Header, Kind, read_header, read_payload_into, write_frame};

use crate::harness::Samples;

/// So much is written and read in a round: more than caches hold.
const BYTES: usize = 64 << 20;
const ROUNDS: usize = 5;

/// Processor seconds a byte.
#[derive(Clone, Copy)]
pub struct Cost {
    /// To send it.
    pub sending: f64,
    /// To receive it.
    pub receiving: f64,
}

/// The cost in frames of `part` bytes each.
///
/// # Errors
/// A frame isn't read as it was written.
pub fn cost(part: usize) -> Result<Cost> {
    let part = part.clamp(1, BYTES);
    let parts = BYTES / part;
    let mut source: Vec<u8> = (0..parts * part).map(|i| (i / 7) as u8).collect();
    let mut frames: Vec<Vec<u8>> = (0..parts).map(|_| Vec::with_capacity(part + 128)).collect();
    let (mut sending, mut receiving) = (Vec::new(), Vec::new());
    // The first round is the one in which memory is touched for the first time.
    for round in 0..=ROUNDS {
        let start = Instant::now();
        for (frame, bytes) in frames.iter_mut().zip(source.chunks(part)) {
            frame.clear();
            now(write_frame(frame, Header::new(Kind::Part), bytes))??;
        }
        let sent = Instant::now();
        for (frame, bytes) in frames.iter().zip(source.chunks_mut(part)) {
            let mut reader = frame.as_slice();
            let header = now(read_header(&mut reader, part as u64))??.ok_or_else(|| anyhow!("a frame is empty"))?;
            now(read_payload_into(&mut reader, &header, bytes))??;
        }
        if round > 0 {
            sending.push((sent - start).as_secs_f64());
            receiving.push(sent.elapsed().as_secs_f64());
        }
    }
    let a_byte = |seconds: Vec<f64>| Samples::new(seconds).median() / (parts * part) as f64;
    Ok(Cost { sending: a_byte(sending), receiving: a_byte(receiving) })
}

/// What a future comes to that never waits, as all reading and writing of memory.
fn now<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(anyhow!("reading or writing memory had to wait")),
    }
}

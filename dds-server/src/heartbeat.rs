//! Signs of life on a connection of their own, where no other bytes hold them up. Both sides do the same.
//!
//! A process that is stopped says nothing, but its machine still acknowledges what arrives; one that is gone has its connections
//! ended by its machine, and if that is gone or can't be reached, nothing is acknowledged and the connection breaks
//! ([`net::UNACKNOWLEDGED`](crate::net::UNACKNOWLEDGED)). So a silent driver whose connection holds is waited for ([`pause`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;

use crate::frame::{self, FrameError, Header, Kind};
use crate::{own_time, signals};

/// The time between two heartbeats.
pub const EVERY: Duration = Duration::from_millis(500);

/// After this long without a heartbeat the other side is taken for lost.
pub const SILENCE: Duration = Duration::from_secs(4);

/// For how long a driver may be stopped, if the environment doesn't say.
const PAUSE: Duration = Duration::from_secs(300);

/// To somebody who says nothing one sign of life in this many is sent: enough to see whether they arrive, and too few to fill
/// the buffers of one who is stopped.
const SELDOM: u64 = 10;

/// For how long a driver may be silent while its connections hold: `STRADSAP_DRIVER_PAUSE` seconds, 300 by default.
pub fn pause() -> Duration {
    let given = std::env::var("STRADSAP_DRIVER_PAUSE").ok().and_then(|text| text.trim().parse().ok());
    given.map_or(PAUSE, |seconds: u32| Duration::from_secs(seconds.into())).max(SILENCE)
}

/// Part of the tag of a heartbeat whose sender was told to end.
pub const LEAVING: u64 = 1;

/// Part of the tag of a heartbeat whose sender can't reach the process whose number is in `lo`, in the generation that it names.
pub const CUT_OFF: u64 = 2;

/// Why the heartbeat ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The other side ended the connection.
    #[error("the connection ended")]
    Ended,
    /// The other side is silent.
    #[error("nothing was heard for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The connection failed, or something else than a sign of life came.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Sends a [`Kind::Ping`] every `every`, and listens until the other side is lost; then returns why. A side that is silent for long
/// gets fewer pings. Any frame without a payload is a heartbeat; `heard` is called with each, and `say` before each that is sent.
pub async fn beat<S: AsyncRead + AsyncWrite>(
    io: S,
    every: Duration,
    silence: Duration,
    say: impl Fn(&mut Header),
    mut heard: impl FnMut(&Header),
) -> Lost {
    let (mut reader, mut writer) = tokio::io::split(io);
    // Signs of life that were sent since the last one was heard.
    let unheard = AtomicU64::new(0);
    let speaking = async {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = 0;
        loop {
            ticks.tick().await;
            let unheard = unheard.fetch_add(1, Relaxed);
            if unheard > 2 * SELDOM && !unheard.is_multiple_of(SELDOM) {
                continue;
            }
            sent += 1;
            let tag = if signals::is_told() { LEAVING } else { 0 };
            let mut header = Header { call: sent, tag, ..Header::new(Kind::Ping) };
            say(&mut header);
            if let Err(error) = frame::write_frame(&mut writer, header, &[]).await {
                // What the other side said last may still be there to be read, and says more.
                return error;
            }
        }
    };
    let listening = async {
        loop {
            match own_time::timeout(silence, frame::read_header(&mut reader, 0)).await {
                Some(Ok(Some(header))) => {
                    unheard.store(0, Relaxed);
                    heard(&header);
                }
                Some(Ok(None)) => return Lost::Ended,
                Some(Err(error)) => return Lost::Frame(error),
                None => return Lost::Silent(silence),
            }
        }
    };
    tokio::pin!(listening);
    tokio::select! {
        biased;
        lost = &mut listening => lost,
        error = speaking => match tokio::time::timeout(every, listening).await {
            Ok(lost) => lost,
            Err(_) => Lost::Frame(error),
        },
    }
}

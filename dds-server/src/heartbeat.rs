//! Signs of life on a connection of their own, where no other bytes hold them up. Both sides do the same.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;

use crate::frame::{self, FrameError, Header, Kind};

/// How often a sign of life is sent.
pub const EVERY: Duration = Duration::from_millis(500);

/// After how long without one the other side is taken for lost.
pub const SILENCE: Duration = Duration::from_secs(4);

/// How it ended.
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

/// Sends a [`Kind::Ping`] every `every` and listens, until the other side is lost: then says how. Any frame without a
/// payload is a sign of life; `heard` is called with each.
pub async fn beat<S: AsyncRead + AsyncWrite>(
    io: S,
    every: Duration,
    silence: Duration,
    mut heard: impl FnMut(&Header),
) -> Lost {
    let (mut reader, mut writer) = tokio::io::split(io);
    let speaking = async {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut header = Header::new(Kind::Ping);
        loop {
            ticks.tick().await;
            header.call += 1;
            if let Err(error) = frame::write_frame(&mut writer, header, &[]).await {
                // What the other side said last may still be there to be read, and says more.
                return error;
            }
        }
    };
    let listening = async {
        loop {
            // The inner future is asked first: who was stopped for long hears what has come meanwhile.
            match tokio::time::timeout(silence, frame::read_header(&mut reader, 0)).await {
                Ok(Ok(Some(header))) => heard(&header),
                Ok(Ok(None)) => return Lost::Ended,
                Ok(Err(error)) => return Lost::Frame(error),
                Err(_) => return Lost::Silent(silence),
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

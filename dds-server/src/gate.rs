//! Where connections come in: nobody passes who has not proved the job's secret.
//!
//! At most [`UNPROVED`] connections are in the handshake at once, each for at most [`crate::hello::TIMEOUT`]; those beyond
//! are closed unread. So what strangers can take up is bounded, whatever they send.

use std::convert::Infallible;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::hello::{Hello, welcome};
use crate::net;
use crate::secret::Secret;

/// The most connections that have not proved the secret yet.
pub const UNPROVED: usize = 256;

/// How long to wait after an `accept` failed: most likely no file descriptors are left, and trying at once won't help.
const PAUSE: Duration = Duration::from_millis(50);

/// Lines about refused connections are written no more often than this, with the number of those left out.
const FOLD: Duration = Duration::from_secs(1);

/// Welcomes the peers that connect, for ever, and hands each that passed to `entered`, with what it was told and what it
/// said.
///
/// `me` is asked for what to say of this process, at each connection; `check` may refuse a peer that has proved the
/// secret, with a reason that it receives (see [`welcome`]).
pub async fn watch<C>(
    listener: &TcpListener,
    secret: &Secret,
    me: impl Fn() -> Hello,
    check: C,
    mut entered: impl FnMut(TcpStream, Hello, Hello),
) -> Infallible
where
    C: Fn(&Hello) -> Result<(), String> + Clone + Send + 'static,
{
    let mut greeting = JoinSet::new();
    let mut refused = Folded::default();
    loop {
        tokio::select! {
            Some(done) = greeting.join_next() => match done {
                Ok(Ok((stream, me, hello))) => entered(stream, me, hello),
                Ok(Err((peer, error))) => refused.log(peer, &error),
                Err(error) => refused.log(None, &error),
            },
            accepted = listener.accept() => match accepted {
                Ok((_, peer)) if greeting.len() >= UNPROVED => refused.log(Some(peer), &"too many connections in the handshake"),
                Ok((mut stream, peer)) => {
                    let (secret, me, check) = (secret.clone(), me(), check.clone());
                    greeting.spawn(async move {
                        match net::prepare(&stream).map_err(Into::into) {
                            Ok(()) => welcome(&mut stream, &secret, &me, check).await,
                            Err(error) => Err(error),
                        }
                        .map(|hello| (stream, me, hello))
                        .map_err(|error| (Some(peer), error))
                    });
                }
                Err(error) => {
                    refused.log(None, &error);
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

/// Folds lines that a stranger could cause by the thousand.
#[derive(Default)]
struct Folded {
    last: Option<Instant>,
    left_out: u64,
}

impl Folded {
    fn log(&mut self, peer: Option<std::net::SocketAddr>, why: &dyn std::fmt::Display) {
        if self.last.is_some_and(|last| last.elapsed() < FOLD) {
            self.left_out += 1;
            return;
        }
        self.last = Some(Instant::now());
        let peer = peer.map_or_else(|| "a connection".to_owned(), |peer| peer.to_string());
        tracing::warn!(left_out = std::mem::take(&mut self.left_out), "{peer} was refused: {why}");
    }
}

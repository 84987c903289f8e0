//! Where connections come in: nobody passes who has not proved the job's secret.
//!
//! At most [`UNPROVED`] connections are in the handshake at once, [`UNPROVED_EACH`] of one address, each for at most
//! [`crate::hello::TIMEOUT`]; for one that comes beyond that the oldest is closed. So what strangers can take up is bounded, whatever
//! they send, and they can't keep others out by waiting: a member has proved the secret within milliseconds.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use crate::hello::Hello;
use crate::link::{Link, welcome};
use crate::secret::Secret;
use crate::stream::Listener;
use crate::{net, tasks};

/// The most connections that have not proved the secret yet.
pub const UNPROVED: usize = 256;

/// The most of them that come from one address. On one machine all connections do, also those of the job.
pub const UNPROVED_EACH: usize = 192;

/// How long to wait after an `accept` failed: most likely no file descriptors are left, and trying at once won't help.
const PAUSE: Duration = Duration::from_millis(50);

/// Lines about refused connections, and about those that make room, are written no more often than this, with the number of those left out.
const FOLD: Duration = Duration::from_secs(5);

/// Welcomes the peers that connect, for ever. `entered` gets each peer that passed, with what it was told and what it said.
///
/// At each connection `me` returns the hello of this process. `check` may refuse a peer that has proved the secret, with a reason
/// that is sent to the peer (see [`welcome`]). `report` gets lines for people to read about refused peers.
pub async fn watch<C>(
    listener: &Listener,
    secret: &Secret,
    me: impl Fn() -> Hello,
    check: C,
    mut entered: impl FnMut(Link, Hello, Hello),
    report: fn(&str),
) -> Infallible
where
    C: Fn(&Hello) -> Result<(), String> + Clone + Send + 'static,
{
    let mut greeting = JoinSet::new();
    // Who waits for nothing doesn't hide who was refused, nor the other way round.
    let mut refused = Folded { report, last: None, left_out: 0 };
    let mut silent = Folded { report, last: None, left_out: 0 };
    let mut waiting: VecDeque<Waiting> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            Some(done) = greeting.join_next_with_id() => {
                let id = done.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
                waiting.retain(|one| one.task.id() != id);
                match done {
                    Ok((_, Ok((link, me, hello)))) => entered(link, me, hello),
                    Ok((_, Err((peer, error)))) => refused.log(peer, &error),
                    // It had to make room.
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => refused.log(None, &error),
                }
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some(oldest) = oldest_of_too_many(&waiting, peer.ip()).and_then(|at| waiting.remove(at)) {
                        oldest.task.abort();
                        silent.log(Some(oldest.peer), &"it said nothing while others waited");
                    }
                    let (secret, me, check) = (secret.clone(), me(), check.clone());
                    let task = greeting.spawn(tasks::owned(async move {
                        match net::prepare(&stream).map_err(Into::into) {
                            Ok(()) => welcome(stream, &secret, &me, check).await,
                            Err(error) => Err(error),
                        }
                        .map(|(link, hello)| (link, me, hello))
                        .map_err(|error| (Some(peer), error))
                    }));
                    waiting.push_back(Waiting { peer, task });
                }
                Err(error) => {
                    refused.log(None, &error);
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
}

/// A connection in the handshake.
struct Waiting {
    peer: SocketAddr,
    task: AbortHandle,
}

/// Who has to go for one more from this address, where there are too many: by its place, the oldest being the first.
fn oldest_of_too_many(waiting: &VecDeque<Waiting>, from: IpAddr) -> Option<usize> {
    let same = |one: &Waiting| one.peer.ip() == from;
    if waiting.iter().filter(|one| same(one)).count() >= UNPROVED_EACH {
        return waiting.iter().position(same);
    }
    (waiting.len() >= UNPROVED).then_some(0)
}

/// Folds lines that a stranger could cause by the thousand.
struct Folded {
    report: fn(&str),
    last: Option<Instant>,
    left_out: u64,
}

impl Folded {
    fn log(&mut self, peer: Option<SocketAddr>, why: &dyn std::fmt::Display) {
        if self.last.is_some_and(|last| last.elapsed() < FOLD) {
            self.left_out += 1;
            return;
        }
        self.last = Some(Instant::now());
        let peer = peer.map_or_else(|| "a connection".to_owned(), |peer| peer.to_string());
        let more = match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            others => format!(" (and {others} others before)"),
        };
        (self.report)(&format!("{peer} was refused: {why}{more}"));
    }
}

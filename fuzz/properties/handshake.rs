//! Handshakes: with strangers, through hands that change a byte, and with peers that say odd things of themselves.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use stradsap_dds_server::codec::{decode, encode};
use stradsap_dds_server::hello::{GreetError, Hello, MAX_HELLO, Purpose, Role, greet, welcome};
use stradsap_dds_server::secret::Secret;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

const PROTOCOL: &[u8] = b"stradsap/hello 2";
/// More than either side says.
const ROOM: usize = 1 << 14;

/// The first byte says what the others are: what a stranger says to either side, which byte is changed on its way, or a hello.
pub fn handshake(bytes: &[u8]) {
    let Some((what, rest)) = bytes.split_first() else { return };
    // A changed length may leave both waiting: their clock goes on at once then.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("an event loop");
    runtime.block_on(async {
        match what % 6 {
            0 => stranger(rest, false).await,
            1 => stranger(&[PROTOCOL, rest].concat(), false).await,
            2 => stranger(rest, true).await,
            3 => stranger(&[PROTOCOL, rest].concat(), true).await,
            4 => changed(rest).await,
            _ => introduced(rest).await,
        }
    });
}

fn secret() -> Secret {
    Secret::from_bytes([5; 32])
}

fn driver() -> Hello {
    Hello {
        role: Role::Driver,
        purpose: Purpose::Control,
        index: None,
        generation: 0,
        build: [1; 32],
        version: "0.1.0".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        host: "here".to_owned(),
        pid: 7,
        threads: 1,
    }
}

/// Who doesn't know the secret is refused, and nothing that they say is asked about.
async fn stranger(says: &[u8], accepts: bool) {
    let (mut near, mut far) = duplex(ROOM + says.len());
    far.write_all(says).await.expect("there is room");
    far.shutdown().await.expect("it is open");
    let (secret, me) = (secret(), driver());
    let refused = match accepts {
        true => greet(&mut near, &secret, &me, false).await.err(),
        false => welcome(&mut near, &secret, &me, false, |peer| panic!("{peer:?}")).await.err(),
    };
    let refused = refused.expect("it doesn't know the secret");
    one_line(&refused);
    let whole = says.len() >= PROTOCOL.len();
    assert_eq!(matches!(refused, GreetError::Protocol), whole && !says.starts_with(PROTOCOL), "{refused}");
    assert!(!matches!(refused, GreetError::Timeout | GreetError::Io(_) | GreetError::Keys(_)), "{refused}");
}

/// A side that reads a changed byte fails.
async fn changed(how: &[u8]) {
    let &[direction, high, low, by] = how else { return };
    let at = usize::from(u16::from_be_bytes([high, low])) % 400;
    let (near, far) = duplex(ROOM);
    let (to_near, to_far) = if direction & 1 == 0 { (by, 0) } else { (0, by) };
    let mut near = Changing { io: near, at, by: to_near, met: false, read: 0 };
    let mut far = Changing { io: far, at, by: to_far, met: false, read: 0 };
    let seal = direction & 2 == 0;
    let (secret, me) = (secret(), driver());
    let (greeted, welcomed) = tokio::join!(
        async {
            let done = greet(&mut near, &secret, &me, seal).await.map(drop);
            let met = near.met;
            drop(near);
            (done, met)
        },
        async {
            let done = welcome(&mut far, &secret, &me, seal, |_| Ok(())).await.map(drop);
            let met = far.met;
            drop(far);
            (done, met)
        },
    );
    let nobody = !greeted.1 && !welcomed.1;
    for (done, met) in [greeted, welcomed] {
        assert!(done.is_err() || !met, "a changed byte went unnoticed");
        assert!(done.is_ok() || !nobody, "{done:?}");
        if let Err(error) = done {
            one_line(&error);
        }
    }
}

/// What a peer that knows the secret says of itself is read as it was said, or refused in a line on both sides.
async fn introduced(said: &[u8]) {
    let Ok(peer) = decode::<Hello>(said, MAX_HELLO) else { return };
    assert_eq!(encode(&peer).expect("it was read"), said);
    let (mut near, mut far) = duplex(ROOM);
    let (secret, me) = (secret(), driver());
    let (greeted, welcomed) = tokio::join!(
        async {
            let done = greet(&mut near, &secret, &peer, false).await.map(|(peer, _)| peer);
            drop(near);
            done
        },
        async {
            let check = |peer: &Hello| if peer.pid == 7 { Ok(()) } else { Err(format!("not {}", peer.address)) };
            let done = welcome(&mut far, &secret, &me, false, check).await.map(|(peer, _)| peer);
            drop(far);
            done
        },
    );
    assert_eq!(greeted.is_ok(), welcomed.is_ok(), "{greeted:?}, {welcomed:?}");
    match (greeted, welcomed) {
        (Ok(greeted), Ok(welcomed)) => assert_eq!((greeted, welcomed), (me, peer)),
        (greeted, welcomed) => {
            for error in greeted.err().into_iter().chain(welcomed.err()) {
                // (Its own version is no stranger's text.)
                if !peer.version.contains(char::is_control) {
                    one_line(&error);
                }
                assert!(matches!(error, GreetError::Build(_) | GreetError::Refused(_)), "{error}");
            }
        }
    }
}

fn one_line(error: &GreetError) {
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// A connection of which one byte is another when it is read.
struct Changing {
    io: DuplexStream,
    at: usize,
    by: u8,
    met: bool,
    read: usize,
}

impl AsyncRead for Changing {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.io).poll_read(cx, buffer);
        let read = &mut buffer.filled_mut()[before..];
        if let Some(byte) = this.at.checked_sub(this.read).and_then(|at| read.get_mut(at)) {
            *byte ^= this.by;
            this.met |= this.by != 0;
        }
        this.read += read.len();
        polled
    }
}

impl AsyncWrite for Changing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

//! The handshake: who knows the secret and is of the same build is welcome, and nobody else.

use std::time::Duration;

use stradsap_dds_server::hello::*;
use stradsap_dds_server::process::{build_hash, host_name};
use stradsap_dds_server::secret::Secret;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};

fn hello(role: Role, build: u8) -> Hello {
    Hello {
        role,
        purpose: Purpose::Control,
        index: Some(u32::from(build)),
        generation: 0,
        build: [build; 32],
        version: "0.1.0".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        host: "here".to_owned(),
        pid: 7,
        threads: 1,
    }
}

fn secret(byte: u8) -> Secret {
    Secret::from_bytes([byte; 32])
}

type Ends = (Result<Hello, GreetError>, Result<Hello, GreetError>);

/// A handshake between a worker with `mine` and `a`, and one that accepts with `theirs` and `b`.
async fn between(mine: &Secret, a: &Hello, theirs: &Secret, b: &Hello) -> Ends {
    let (mut left, mut right) = duplex(1 << 16);
    tokio::join!(
        async move {
            let done = greet(&mut left, mine, a, false).await.map(|(peer, _)| peer);
            drop(left);
            done
        },
        async move {
            let done = welcome(&mut right, theirs, b, false, |_| Ok(())).await.map(|(peer, _)| peer);
            drop(right);
            done
        },
    )
}

#[tokio::test]
async fn both_learn_who_the_other_is() {
    let (worker, driver) = (hello(Role::Worker, 1), hello(Role::Driver, 1));
    let (greeted, welcomed) = between(&secret(5), &worker, &secret(5), &driver).await;
    assert_eq!(greeted.unwrap(), driver);
    assert_eq!(welcomed.unwrap(), worker);
}

#[tokio::test]
async fn another_secret_is_refused_on_both_sides() {
    let (worker, driver) = (hello(Role::Worker, 1), hello(Role::Driver, 1));
    let (greeted, welcomed) = between(&secret(5), &worker, &secret(6), &driver).await;
    assert!(matches!(greeted.unwrap_err(), GreetError::Secret));
    assert!(matches!(welcomed.unwrap_err(), GreetError::Secret));
}

#[tokio::test]
async fn another_build_is_refused_with_both_hashes_and_versions() {
    let (worker, mut driver) = (hello(Role::Worker, 0xab), hello(Role::Driver, 0xcd));
    driver.version = "0.2.0".to_owned();
    let (greeted, welcomed) = between(&secret(5), &worker, &secret(5), &driver).await;
    for error in [greeted.unwrap_err(), welcomed.unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, GreetError::Build(_)));
        for part in ["abababababababab ", "cdcdcdcdcdcdcdcd ", "0.1.0", "0.2.0"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\n'));
    }
}

#[tokio::test]
async fn a_server_has_an_executable_of_its_own_but_the_same_version() {
    let (mut server, driver) = (hello(Role::Server, 1), hello(Role::Driver, 2));
    let (greeted, welcomed) = between(&secret(5), &server, &secret(5), &driver).await;
    assert!(greeted.is_ok() && welcomed.is_ok());
    server.version = "0.1.1".to_owned();
    for (a, b) in [(&server, &driver), (&driver, &server)] {
        let (greeted, welcomed) = between(&secret(5), a, &secret(5), b).await;
        assert!(matches!(greeted.unwrap_err(), GreetError::Build(_)));
        assert!(matches!(welcomed.unwrap_err(), GreetError::Build(_)));
    }
}

#[tokio::test]
async fn the_reason_of_a_refusal_travels() {
    let (worker, driver) = (hello(Role::Worker, 1), hello(Role::Driver, 1));
    let (mut left, mut right) = duplex(1 << 16);
    let long = "ä".repeat(5000);
    let secret = secret(5);
    let (greeted, welcomed) = tokio::join!(
        greet(&mut left, &secret, &worker, false),
        welcome(&mut right, &secret, &driver, false, |peer| Err(format!("no more {}\n{long}", peer.who()))),
    );
    for error in [greeted.err().unwrap(), welcomed.err().unwrap()] {
        assert!(error.to_string().starts_with("refused: no more worker 1 (host here, pid 7) ä"), "{error}");
    }
}

#[tokio::test]
async fn a_hello_too_long_is_not_sent() {
    let mut worker = hello(Role::Worker, 1);
    worker.host = "h".repeat(5000);
    let (mut left, _right) = duplex(1 << 16);
    assert!(matches!(greet(&mut left, &secret(5), &worker, true).await, Err(GreetError::TooLong { .. })));
}

#[tokio::test(start_paused = true)]
async fn who_sends_a_byte_a_minute_is_left_after_five_seconds() {
    let (mut left, mut right) = duplex(1 << 16);
    let slow = async move {
        for byte in *b"stradsap/hello 2 and more that does not come" {
            if left.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        left
    };
    let start = tokio::time::Instant::now();
    let (secret, driver) = (secret(5), hello(Role::Driver, 1));
    tokio::select! {
        _ = slow => panic!("the slow peer was waited for"),
        done = welcome(&mut right, &secret, &driver, false, |_| Ok(())) => {
            assert!(matches!(done, Err(GreetError::Timeout)));
        }
    }
    assert_eq!(start.elapsed(), TIMEOUT);

    let (mut left, _silent) = duplex(1 << 16);
    assert!(matches!(greet(&mut left, &secret, &driver, false).await, Err(GreetError::Timeout)));
}

#[tokio::test]
async fn garbage_is_refused_at_its_sixteenth_byte() {
    let (mut left, mut right) = duplex(1 << 16);
    left.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let done = welcome(&mut right, &secret(5), &hello(Role::Driver, 1), false, |_| Ok(())).await;
    assert!(matches!(done, Err(GreetError::Protocol)));
}

#[tokio::test]
async fn a_handshake_that_ends_anywhere_is_closed() {
    // Within what the connecting side sends first.
    for end in [0, 1, 15, 16, 47, 48, 50, 64] {
        let (mut left, mut right) = duplex(1 << 16);
        let mut opening = b"stradsap/hello 2".to_vec();
        opening.resize(80, 0);
        left.write_all(&opening[..end]).await.unwrap();
        drop(left);
        let done = welcome(&mut right, &secret(5), &hello(Role::Driver, 1), false, |_| Ok(())).await;
        assert!(matches!(done, Err(GreetError::Closed)), "{end}");
    }
}

#[tokio::test]
async fn what_was_said_can_not_be_sent_back() {
    let (mut left, mut mirror) = duplex(1 << 16);
    let reflecting = async move {
        let mut buffer = [0; 256];
        while let Ok(n @ 1..) = mirror.read(&mut buffer).await {
            mirror.write_all(&buffer[..n]).await.unwrap();
        }
    };
    let (secret, worker) = (secret(5), hello(Role::Worker, 1));
    tokio::select! {
        () = reflecting => panic!("the mirror broke"),
        done = greet(&mut left, &secret, &worker, false) => {
            assert!(matches!(done, Err(GreetError::Secret)));
        }
    }
}

/// Passes bytes on, and flips a bit of the byte number `at`. Gives how many there were.
async fn tamper<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(mut from: R, mut to: W, at: Option<usize>) -> usize {
    let mut passed = 0;
    while let Ok(mut byte) = from.read_u8().await {
        if at == Some(passed) {
            byte ^= 1;
        }
        passed += 1;
        if to.write_all(&[byte]).await.is_err() {
            break;
        }
    }
    let _closed = to.shutdown().await;
    passed
}

async fn tampered(there: Option<usize>, back: Option<usize>) -> (Ends, usize, usize) {
    let (mut left, outside) = duplex(1 << 16);
    let (inside, mut right) = duplex(1 << 16);
    let ((from_left, to_left), (from_right, to_right)) = (tokio::io::split(outside), tokio::io::split(inside));
    let (worker, driver) = (hello(Role::Worker, 1), hello(Role::Driver, 1));
    let secret = secret(5);
    async fn end<T>(done: T, _closed: DuplexStream) -> T {
        done
    }
    let (greeted, welcomed, sent, answered) = tokio::join!(
        async {
            let done = greet(&mut left, &secret, &worker, true).await.map(|(peer, _)| peer);
            end(done, left).await
        },
        async {
            let done = welcome(&mut right, &secret, &driver, false, |_| Ok(())).await.map(|(peer, _)| peer);
            end(done, right).await
        },
        tamper(from_left, to_right, there),
        tamper(from_right, to_left, back),
    );
    ((greeted, welcomed), sent, answered)
}

#[tokio::test(start_paused = true)]
async fn a_changed_byte_anywhere_is_noticed() {
    let ((greeted, welcomed), sent, answered) = tampered(None, None).await;
    assert!(greeted.is_ok() && welcomed.is_ok());
    assert!(sent > 150 && answered > 150);
    for at in 0..sent {
        let ((_, welcomed), _, _) = tampered(Some(at), None).await;
        assert!(welcomed.is_err(), "byte {at} to the accepting side");
    }
    for at in 0..answered {
        let ((greeted, welcomed), _, _) = tampered(None, Some(at)).await;
        assert!(greeted.is_err() && welcomed.is_err(), "byte {at} to the connecting side");
    }
}

/// Who has heard a whole handshake, and sends again what the connecting side sent in it, comes nowhere.
#[tokio::test(start_paused = true)]
async fn what_was_heard_can_not_be_sent_again() {
    let (secret, worker, driver) = (secret(5), hello(Role::Worker, 1), hello(Role::Driver, 1));
    let (mut left, mut outside) = duplex(1 << 16);
    let (mut inside, mut right) = duplex(1 << 16);
    let mut heard = Vec::new();
    let listening = async {
        let (mut there, mut back) = ([0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                read = outside.read(&mut there) => match read.unwrap() {
                    0 => break,
                    n => {
                        heard.extend_from_slice(&there[..n]);
                        inside.write_all(&there[..n]).await.unwrap();
                    }
                },
                read = inside.read(&mut back) => match read.unwrap() {
                    0 => break,
                    n => outside.write_all(&back[..n]).await.unwrap(),
                },
            }
        }
    };
    let both = async {
        let done = tokio::join!(
            greet(&mut left, &secret, &worker, false),
            welcome(&mut right, &secret, &driver, false, |_| Ok(())),
        );
        (done.0.is_ok(), done.1.is_ok())
    };
    tokio::select! {
        () = listening => panic!("it ended early"),
        done = both => assert_eq!(done, (true, true)),
    }
    let (mut again, mut right) = duplex(1 << 16);
    again.write_all(&heard).await.unwrap();
    let done = welcome(&mut right, &secret, &driver, false, |_| panic!("it came as far as the check")).await;
    assert!(matches!(done, Err(GreetError::Changed)));
}

/// A connection is sealed where either side wants it.
#[tokio::test]
async fn either_side_may_want_it_sealed() {
    for (mine, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut left, mut right) = duplex(1 << 16);
        let (secret, worker, driver) = (secret(5), hello(Role::Worker, 1), hello(Role::Driver, 1));
        let (greeted, welcomed) = tokio::join!(
            greet(&mut left, &secret, &worker, mine),
            welcome(&mut right, &secret, &driver, theirs, |_| Ok(())),
        );
        let sealed = [greeted.unwrap().1.is_some(), welcomed.unwrap().1.is_some()];
        assert_eq!(sealed, [mine || theirs; 2]);
    }
}

#[test]
fn this_process_can_say_what_it_is() {
    let me = Hello::of_this_process(Role::Worker, Purpose::Data).unwrap();
    assert_eq!(me.build, build_hash().unwrap());
    let exe = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(&me.build, blake3::hash(&exe).as_bytes());
    assert_eq!(me.pid, std::process::id());
    assert_eq!(me.host, host_name());
}

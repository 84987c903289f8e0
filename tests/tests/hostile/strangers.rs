//! Connections that no process of the job makes, to the driver and to a worker, all at once while a job runs.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use stradsap_dds_server::frame::{Header, Kind};
use stradsap_dds_server::hello::{GreetError, Hello, Purpose, Role};
use stradsap_dds_server::link::{Link, greet};
use stradsap_dds_server::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::mix;
use crate::jobs::job::{Job, Setting, joining};
use crate::jobs::processes::{a_secret, free_port, memory, ports, signal_to, wait_for};

/// Long enough to outlast what strangers do.
const EPOCHS: usize = 200;
const FEWER: usize = 50;
/// How long a handshake may take, and a little.
const PATIENCE: Duration = Duration::from_secs(7);
/// What strangers may cost a process, in KiB.
const GROWTH: u64 = 10 << 10;
const CROWD: usize = 1000;

pub(crate) fn all_at_once() {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(6));
    let setting = Setting { workers: 2, epochs: EPOCHS, listen: Some((&at, &secret)), ..Setting::default() };
    let mut job = Job::start(&setting);
    let alone = Job::start(&Setting { epochs: EPOCHS, ..Setting::default() });
    let mut workers: Vec<_> = (0..2).map(|_| joining(&at, &secret, |_| {})).collect();
    job.reached(20);
    let port = wait_for("the port of a worker", PATIENCE, || ports(workers[0].pid()).first().copied());
    let of_worker = format!("127.0.0.1:{port}");
    let processes = [job.pid(), workers[0].pid()];
    let before = processes.map(|pid| memory(pid).unwrap());
    // Each thread panics where it is not refused as it should be.
    let attacks: Vec<thread::JoinHandle<()>> = [at.clone(), of_worker]
        .into_iter()
        .flat_map(|at| {
            let secret = secret.clone();
            let attack = |f: fn(&str, &str)| {
                let (at, secret) = (at.clone(), secret.clone());
                thread::spawn(move || f(&at, &secret))
            };
            [garbage, greets_and_babbles, says_nothing, crawls, wrong_secret, wrong_build, enormous_frame, crowd]
                .map(attack)
        })
        .collect();
    let refused = attacks.into_iter().map(thread::JoinHandle::join).filter(Result::is_ok).count();
    assert_eq!(refused, 16, "not every stranger was refused as it should be");
    assert!(job.driver.ended().is_none(), "the job was over too soon for that");
    for (pid, (peak, resident)) in processes.into_iter().zip(before) {
        let (peak_now, resident_now) = memory(pid).unwrap();
        let grown = peak_now.saturating_sub(peak).min(resident_now.saturating_sub(resident));
        assert!(grown < GROWTH, "{pid} grew by {grown} KiB");
    }
    let (digest, err) = job.digest("a job with strangers");
    assert_eq!(digest, alone.digest("a job in one process").0);
    assert!(!err.contains("lost"), "{err}");
    for worker in &mut workers {
        assert!(worker.wait("a worker", PATIENCE).success(), "{}", worker.err());
    }
}

fn connected(at: &str) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The other side ends the connection, whatever it says before.
fn is_left(mut stream: TcpStream, what: &str) {
    let (since, mut bytes) = (Instant::now(), [0; 4096]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("{what}: it is still connected after {} s", since.elapsed().as_secs_f64())
            }
            Err(_) => return,
        }
    }
}

fn noise(n: u64) -> Vec<u8> {
    (0..n).flat_map(|k| mix(k).to_le_bytes()).collect()
}

fn garbage(at: &str, _: &str) {
    for bytes in
        [noise(1 << 16), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), vec![0; 1 << 16], vec![255; 64]]
    {
        let mut stream = connected(at);
        // It may be left before it has said all.
        let _refused = stream.write_all(&bytes);
        is_left(stream, "garbage");
    }
}

/// Begins as it should.
fn greets_and_babbles(at: &str, _: &str) {
    let mut theirs = [0; 65];
    let since = Instant::now();
    let mut stream = loop {
        let mut stream = connected(at);
        let mut opening = b"stradsap/hello 2".to_vec();
        opening.extend([0; 49]);
        match stream.write_all(&opening).and_then(|()| stream.read_exact(&mut theirs)) {
            Ok(()) => break stream,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(&theirs[..16], b"stradsap/hello 2");
    // What they said, sent back to them, proves nothing.
    let _refused = stream.write_all(&theirs[16..]).and_then(|()| stream.write_all(&noise(1 << 12)));
    is_left(stream, "an echo");
}

fn says_nothing(at: &str, _: &str) {
    is_left(connected(at), "silence");
}

/// One byte, and the next one in a minute.
fn crawls(at: &str, _: &str) {
    let mut stream = connected(at);
    stream.write_all(b"s").unwrap();
    is_left(stream, "one byte a minute");
}

fn hello(purpose: Purpose) -> Hello {
    let mut hello = Hello::of_this_process(Role::Worker, purpose).unwrap();
    (hello.generation, hello.address) = (1, "127.0.0.1:9".to_string());
    hello
}

fn wait<R>(future: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
}

/// Introduces itself, again and again while this many others are at the door that it is closed unread.
async fn introduced(at: &str, secret: &Secret, hello: &Hello) -> Result<(Link, Hello), GreetError> {
    loop {
        let stream = tokio::net::TcpStream::connect(at).await.unwrap();
        match greet(stream, secret, hello).await {
            Err(GreetError::Closed | GreetError::Io(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            end => return end,
        }
    }
}

fn wrong_secret(at: &str, _: &str) {
    let wrong = Secret::from_hex(&a_secret(7)).unwrap();
    for purpose in [Purpose::Control, Purpose::Heartbeat, Purpose::Data] {
        let end = wait(introduced(at, &wrong, &hello(purpose)));
        assert!(matches!(end, Err(GreetError::Secret)));
    }
}

fn wrong_build(at: &str, secret: &str) {
    let secret = Secret::from_hex(secret).unwrap();
    for purpose in [Purpose::Control, Purpose::Data] {
        let other = Hello { build: [7; 32], version: "9.9.9".to_string(), ..hello(purpose) };
        let end = wait(introduced(at, &secret, &other));
        let text = end.err().unwrap().to_string();
        assert!(text.contains("0707070707070707 of version 9.9.9") && text.contains("of version 0.1.0"), "{text}");
    }
}

/// It knows the secret, and claims to send more than there is memory anywhere.
fn enormous_frame(at: &str, secret: &str) {
    let secret = Secret::from_hex(secret).unwrap();
    for (kind, len) in [(Kind::Part, 1u64 << 63), (Kind::Put, 1 << 62), (Kind::Blob, u64::MAX), (Kind::Get, 1 << 40)] {
        wait(async {
            let (mut stream, _) = introduced(at, &secret, &hello(Purpose::Data)).await.unwrap();
            let header = Header { generation: 1, len, lo: 0, hi: 1 << 61, ..Header::new(kind) };
            stream.write_all(&header.encode()).await.unwrap();
            // A refusal may come first; then it is left, for the rest can't be skipped.
            let mut bytes = Vec::new();
            let _reset = stream.read_to_end(&mut bytes).await;
            assert!(bytes.len() < 4096, "{} bytes came", bytes.len());
        });
    }
}

/// More connections than are let in at once.
fn crowd(at: &str, _: &str) {
    let all: Vec<TcpStream> = (0..CROWD).map(|_| connected(at)).collect();
    for (k, stream) in all.into_iter().enumerate() {
        is_left(stream, &format!("connection {k} of {CROWD}"));
    }
}

/// Strangers who wait keep nobody from joining: not even in place of one who is lost meanwhile.
pub(crate) fn idle_during_a_loss() {
    let setting = Setting { workers: 3, epochs: FEWER, ..Setting::default() };
    let mut job = Job::start(&setting);
    job.reached(5);
    let port = wait_for("the driver's port", PATIENCE, || ports(job.pid()).first().copied());
    let over = Arc::new(AtomicBool::new(false));
    let (at, ended) = (format!("127.0.0.1:{port}"), Arc::clone(&over));
    let crowd = thread::spawn(move || {
        let mut all: VecDeque<TcpStream> = (0..300).map(|_| connected(&at)).collect();
        while !ended.load(Relaxed) {
            // More come, now and then.
            all.pop_front();
            all.extend(TcpStream::connect(&at).ok());
            thread::sleep(Duration::from_millis(3));
        }
    });
    thread::sleep(Duration::from_millis(300));
    for round in 0..2 {
        let victim = job.workers()[round];
        signal_to(victim, "KILL");
        let since = Instant::now();
        job.goes_on_without(victim);
        assert!(since.elapsed() < Duration::from_secs(4), "{:?}\n{}", since.elapsed(), job.driver.err());
        wait_for("three workers", PATIENCE, || (job.workers().len() == 3).then_some(()));
    }
    over.store(true, Relaxed);
    crowd.join().unwrap();
    let (digest, err) = job.digest("a job with idle strangers");
    assert_eq!(digest, Job::start(&Setting { epochs: FEWER, ..Setting::default() }).digest("alone").0);
    assert!(err.contains(" was refused: it said nothing while others waited"), "{err}");
    assert_eq!(err.matches("warning: lost ").count(), 2, "{err}");
}

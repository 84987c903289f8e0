//! A server over real sockets: what is put is got, and strangers don't hinder it.

use std::time::Duration;

use crate::common::{Driver, SECOND, ask};
use stradsap_dds_server::frame::{self, Header, Kind};
use stradsap_dds_server::heartbeat::{self, beat};
use stradsap_dds_server::hello::{GreetError, Hello, Purpose};
use stradsap_dds_server::link::{Link, greet};
use stradsap_dds_server::net;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::server::{ServerConfig, ServerError, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

const MEMORY: u64 = 16 << 20;

async fn start(driver: &Driver) -> JoinHandle<Result<(), ServerError>> {
    tokio::spawn(run(ServerConfig {
        index: Some(2),
        ..ServerConfig::new(driver.address(), driver.secret.clone(), MEMORY)
    }))
}

fn beating(heart: Link) -> JoinHandle<heartbeat::Lost> {
    tokio::spawn(beat(heart, heartbeat::EVERY, heartbeat::SILENCE, |_| {}, |_| {}))
}

fn put(lo: u64, hi: u64) -> Header {
    Header { call: 9, dds: 7, tag: 1, lo, hi, ..Header::new(Kind::Put) }
}

fn get(lo: u64, hi: u64) -> Header {
    Header { kind: Kind::Get, ..put(lo, hi) }
}

#[tokio::test]
async fn parts_are_stored_got_and_dropped() {
    let driver = Driver::new().await;
    let server = start(&driver).await;
    let joined = driver.join().await;
    assert_eq!(joined.hello.index, Some(2));
    let beating = beating(joined.heart);
    let mut data = driver.connect(&joined.hello.address).await.unwrap();

    let part: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 4) as u8).collect();
    let (done, _) = ask(&mut data, put(0, 750_000), &part).await;
    assert_eq!(done.kind, Kind::Done);
    let (answer, bytes) = ask(&mut data, get(0, 750_000), &4u64.to_le_bytes()).await;
    assert!(answer.kind == Kind::Data && bytes == part);
    let (answer, bytes) = ask(&mut data, get(1000, 2000), &4u64.to_le_bytes()).await;
    assert!(answer.kind == Kind::Data && bytes == part[4000..8000]);

    // Refusals, each with its reason, after which the connection goes on.
    let why = |(answer, bytes): (Header, Vec<u8>)| {
        assert_eq!(answer.kind, Kind::Refused);
        String::from_utf8(bytes).unwrap()
    };
    assert!(why(ask(&mut data, get(1000, 2000), &[]).await).contains("not stored behind their lengths"));
    assert!(why(ask(&mut data, get(0, 10), &[1, 2, 3]).await).contains("0 or 8 bytes"));
    assert!(why(ask(&mut data, put(5, 6), &[1]).await).contains("overlap"));
    assert!(why(ask(&mut data, put(9, 9), &[1]).await).contains("no range"));
    assert!(why(ask(&mut data, put(900_000, 900_001), &vec![0; 14 << 20]).await).contains("fit"));
    assert!(why(ask(&mut data, Header { kind: Kind::Part, ..put(1, 2) }, &[1]).await).contains("snapshots"));
    assert!(why(ask(&mut data, Header { kind: Kind::Ping, ..put(1, 2) }, &[1]).await).contains("no payload"));
    let mut damaged = Header { len: 5, checksum: 1, ..put(800_000, 800_001) }.encode().to_vec();
    damaged.extend(b"bytes");
    data.write_all(&damaged).await.unwrap();
    let refused = frame::read_header(&mut data, 1000).await.unwrap().unwrap();
    let reason = String::from_utf8(frame::read_payload(&mut data, &refused).await.unwrap()).unwrap();
    assert!(reason.contains("damaged"), "{reason}");

    assert_eq!(ask(&mut data, Header::new(Kind::Ping), &[]).await.0.kind, Kind::Pong);
    let drop_below = Header { kind: Kind::Drop, tag: 2, ..put(0, 0) };
    assert_eq!(ask(&mut data, drop_below, &[]).await.0.kind, Kind::Done);
    assert!(why(ask(&mut data, get(0, 750_000), &4u64.to_le_bytes()).await).contains("not in snapshot 1"));
    // What was held and what was refused is free again.
    assert_eq!(ask(&mut data, put(0, 10), &vec![0; 15 << 20]).await.0.kind, Kind::Done);

    // Who has not noticed that the generation is over is fenced off.
    let mut control = joined.control;
    assert_eq!(ask(&mut control, Header { generation: 1, ..drop_below }, &[]).await.0.kind, Kind::Done);
    assert!(why(ask(&mut data, put(0, 10), &[0; 10]).await).contains("generation 0 is over"));
    assert!(why(ask(&mut data, get(0, 10), &[]).await).contains("generation 0 is over"));
    assert_eq!(ask(&mut data, Header { generation: 1, ..put(0, 10) }, &[0; 10]).await.0.kind, Kind::Done);

    // A claim beyond the server's memory ends the connection, after a word.
    data.write_all(&Header { generation: 1, len: 1 << 63, ..put(20, 30) }.encode()).await.unwrap();
    let refused = frame::read_header(&mut data, 1000).await.unwrap().unwrap();
    assert_eq!(refused.kind, Kind::Refused);
    frame::skip_payload(&mut data, &refused).await.unwrap();
    assert!(frame::read_header(&mut data, 1000).await.unwrap().is_none());

    drop(control);
    let ended = tokio::time::timeout(10 * SECOND, server).await.unwrap().unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    beating.abort();
}

#[tokio::test]
async fn payloads_that_do_not_come_give_their_memory_back() {
    let driver = Driver::new().await;
    let _server = start(&driver).await;
    let joined = driver.join().await;
    let _beating = beating(joined.heart);
    for _ in 0..3 {
        let mut data = driver.connect(&joined.hello.address).await.unwrap();
        data.write_all(&Header { len: 12 << 20, ..put(0, 1) }.encode()).await.unwrap();
        data.write_all(&[0; 100]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut data = driver.connect(&joined.hello.address).await.unwrap();
    // The server reads the end of the connections before this one's request, but promises no order.
    for tries in 0.. {
        match ask(&mut data, put(0, 1), &vec![0; 12 << 20]).await.0.kind {
            Kind::Done => break,
            _ => assert!(tries < 20),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn strangers_do_not_hinder_it() {
    let driver = Driver::new().await;
    let _server = start(&driver).await;
    let joined = driver.join().await;
    let _beating = beating(joined.heart);
    let mut data = driver.connect(&joined.hello.address).await.unwrap();
    ask(&mut data, put(0, 4), b"part").await;

    // Some say nothing, some say something else, some begin well: 1,000 of them, at most 300 of them open at once.
    let mut open = std::collections::VecDeque::new();
    for i in 0..1000u32 {
        let mut stream = net::connect(&joined.hello.address, 10 * SECOND).await.unwrap();
        let said: &[u8] = match i % 4 {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\n\r\n",
            2 => b"stradsap/hello 2 and then 32 bytes that are a nonce, and no proof of anything that follows",
            _ => &[0xff; 72],
        };
        let _refused = stream.write_all(said).await;
        open.push_back(stream);
        if open.len() > 300 {
            open.pop_front();
        }
    }
    // While they are there, those who passed are served.
    assert_eq!(ask(&mut data, get(0, 4), &1u64.to_le_bytes()).await.1, b"part");
    drop(open);

    let stranger = Secret::generate().unwrap();
    let stream = net::connect(&joined.hello.address, 10 * SECOND).await.unwrap();
    let me = Hello { purpose: Purpose::Data, ..driver.me.clone() };
    assert!(matches!(greet(stream, &stranger, &me).await, Err(GreetError::Secret)));
    // Only data connections are for a server.
    let stream = net::connect(&joined.hello.address, 10 * SECOND).await.unwrap();
    let refused = greet(stream, &driver.secret, &driver.me).await.err().unwrap().to_string();
    assert!(refused.contains("for data, not for Control"), "{refused}");
    let mut late = driver.connect(&joined.hello.address).await.unwrap();
    assert_eq!(ask(&mut late, get(0, 4), &1u64.to_le_bytes()).await.1, b"part");
}

#[tokio::test]
async fn strangers_who_wait_keep_nobody_out() {
    let driver = Driver::new().await;
    let _server = start(&driver).await;
    let joined = driver.join().await;
    let _beating = beating(joined.heart);
    let mut open = Vec::new();
    for _ in 0..2 * stradsap_dds_server::gate::UNPROVED {
        open.push(net::connect(&joined.hello.address, 10 * SECOND).await.unwrap());
    }
    // The oldest has gone, the last one waits still, and who knows the secret comes in at once.
    let end = tokio::time::timeout(2 * SECOND, open[0].read(&mut [0; 1])).await.expect("closed at once");
    assert!(matches!(end, Ok(0) | Err(_)));
    tokio::time::timeout(2 * SECOND, driver.connect(&joined.hello.address)).await.expect("at once").unwrap();
    let last = open.last_mut().unwrap();
    assert!(tokio::time::timeout(SECOND / 4, last.read(&mut [0; 1])).await.is_err(), "the last one is left");
}

#[tokio::test]
async fn a_silent_driver_is_lost_when_it_says_nothing_for_that_long() {
    let driver = Driver::new().await;
    let config = ServerConfig::new(driver.address(), driver.secret.clone(), MEMORY);
    let server = tokio::spawn(run(ServerConfig { pause: heartbeat::SILENCE, ..config }));
    let joined = driver.join().await;
    let ended = tokio::time::timeout(5 * SECOND, server).await.expect("in time").unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("nothing was heard for 4 s") && error.contains(&driver.address()), "{error}");
    drop(joined);
}

#[tokio::test]
async fn a_lost_heartbeat_ends_it() {
    let driver = Driver::new().await;
    let server = start(&driver).await;
    let joined = driver.join().await;
    drop(joined.heart);
    let ended = tokio::time::timeout(10 * SECOND, server).await.expect("in time").unwrap();
    assert!(matches!(ended, Err(ServerError::Lost { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_driver_that_ends_both_at_once_said_goodbye() {
    let driver = Driver::new().await;
    let server = start(&driver).await;
    let joined = driver.join().await;
    drop(joined.heart);
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(joined.control);
    let ended = tokio::time::timeout(10 * SECOND, server).await.expect("in time").unwrap();
    assert!(ended.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn addresses() {
    let exposed = net::bind("0.0.0.0:0", false).await.unwrap_err().to_string();
    assert!(exposed.starts_with("0.0.0.0:0: refusing") && exposed.contains("STRADSAP_SECRET"), "{exposed}");
    assert!(net::bind("[::]:0", false).await.is_err());
    net::bind("0.0.0.0:0", true).await.unwrap();
    for address in ["127.0.0.1:0", "127.8.9.10:0", "localhost:0"] {
        net::bind(address, false).await.unwrap();
    }
    for (address, loopback) in [("127.1.2.3", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.0.0.1", false)] {
        assert_eq!(net::is_loopback(&address.parse().unwrap()), loopback, "{address}");
    }
    for wrong in ["here", "127.0.0.1", "127.0.0.1:99999", ""] {
        let error = net::bind(wrong, true).await.unwrap_err();
        assert!(error.to_string().contains("HOST:PORT"), "{error}");
    }
    let free = net::bind("127.0.0.1:0", false).await.unwrap().local_addr().unwrap().to_string();
    assert!(matches!(net::connect(&free, SECOND).await, Err(net::NetError::Connect { .. })));
}

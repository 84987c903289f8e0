//! Signs of life, in simulated time.

use std::cell::Cell;

use stradsap_dds_server::frame::{Header, Kind, write_frame};
use stradsap_dds_server::heartbeat::{EVERY, Lost, SILENCE, beat};
use tokio::io::duplex;
use tokio::time::{Duration, Instant, sleep};

#[tokio::test(start_paused = true)]
async fn two_that_live_hear_each_other_until_one_ends() {
    let (left, right) = duplex(1024);
    let heard = Cell::new(0);
    let start = Instant::now();
    let minute = async {
        tokio::select! {
            lost = beat(left, EVERY, SILENCE, |_| {}, |_| {}) => panic!("{lost}"),
            () = sleep(Duration::from_secs(60)) => {}
        }
    };
    let (lost, ()) = tokio::join!(beat(right, EVERY, SILENCE, |_| {}, |_| heard.set(heard.get() + 1)), minute);
    assert!(matches!(lost, Lost::Ended), "{lost}");
    assert!((119..=121).contains(&heard.get()), "{}", heard.get());
    assert!(start.elapsed() <= Duration::from_secs(61));
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_is_lost() {
    let (mut left, right) = duplex(1024);
    let start = Instant::now();
    let silent = async {
        sleep(Duration::from_secs(3)).await;
        write_frame(&mut left, Header::new(Kind::Pong), &[]).await
    };
    let (lost, sent) = tokio::join!(beat(right, EVERY, SILENCE, |_| {}, |_| {}), silent);
    assert!(sent.is_ok());
    assert!(matches!(lost, Lost::Silent(_)), "{lost}");
    assert_eq!(start.elapsed(), Duration::from_secs(3) + SILENCE);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_sign_of_life_ends_it() {
    let (mut left, right) = duplex(1024);
    let (lost, sent) = tokio::join!(
        beat(right, EVERY, SILENCE, |_| {}, |_| {}),
        write_frame(&mut left, Header::new(Kind::Ping), b"more")
    );
    assert!(sent.is_ok());
    assert!(matches!(lost, Lost::Frame(_)), "{lost}");
}

//! What sealed connections cost beside plain ones: gigabytes a second of processor time, on the side that sends and on the one
//! that receives, frames' checksums and the system's work included. `cargo bench -p stradsap-dds-server --bench sealed`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark reports, and ends where something is wrong")]

use std::sync::mpsc::channel;
use std::thread;

use stradsap_dds_server::frame::{Header, Kind, read_header, read_payload_into, write_frame};
use stradsap_dds_server::hello::{Hello, Purpose, Role, greet, welcome};
use stradsap_dds_server::link::Link;
use stradsap_dds_server::secret::Secret;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const FRAME: usize = 1 << 20;
const FRAMES: usize = 1 << 10;
const ROUNDS: usize = 5;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The processor time of this thread so far, in seconds.
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Gigabytes a second of processor time, sent and received.
fn once(seal: bool) -> (f64, f64) {
    let secret = Secret::from_bytes([1; 32]);
    let me = Hello::of_this_process(Role::Worker, Purpose::Data).unwrap();
    let (said, address) = channel();
    let (its_secret, its_name) = (secret.clone(), me.clone());
    let receiving = thread::spawn(move || {
        runtime().block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            said.send(listener.local_addr().unwrap()).unwrap();
            let mut stream = listener.accept().await.unwrap().0;
            let (_, keys) = welcome(&mut stream, &its_secret, &its_name, seal, |_| Ok(())).await.unwrap();
            let (mut link, mut payload) = (Link::new(stream, keys), vec![0; FRAME]);
            let begun = used();
            for _ in 0..FRAMES {
                let header = read_header(&mut link, FRAME as u64).await.unwrap().unwrap();
                read_payload_into(&mut link, &header, &mut payload).await.unwrap();
            }
            used() - begun
        })
    });
    let address = address.recv().unwrap();
    let sending = runtime().block_on(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (_, keys) = greet(&mut stream, &secret, &me, seal).await.unwrap();
        let (mut link, payload) = (Link::new(stream, keys), vec![7; FRAME]);
        let begun = used();
        for _ in 0..FRAMES {
            write_frame(&mut link, Header::new(Kind::Part), &payload).await.unwrap();
        }
        used() - begun
    });
    let rate = |seconds: f64| (FRAME * FRAMES) as f64 / 1e9 / seconds;
    (rate(sending), rate(receiving.join().unwrap()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut figures = [[vec![], vec![]], [vec![], vec![]]];
    for _ in 0..ROUNDS {
        for (seal, [sent, received]) in figures.iter_mut().enumerate() {
            let (sending, receiving) = once(seal == 1);
            sent.push(sending);
            received.push(receiving);
        }
    }
    println!("GB a second of processor time, medians of {ROUNDS} rounds of {} MB in turn", (FRAME * FRAMES) >> 20);
    println!("{:10}{:>10}{:>10}", "", "sending", "receiving");
    for (name, [sent, received]) in ["plain", "sealed"].into_iter().zip(figures) {
        println!("{name:10}{:>10.2}{:>10.2}", median(sent), median(received));
    }
}

//! A slow link: connections are forwarded, and every byte arrives a fixed time after it was sent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes that are forwarded at a time.
const CHUNK: usize = 1 << 16;

/// A link from an address of its own to one that may be told later.
#[derive(Clone)]
pub struct Link {
    /// From who connects to who listens, and back.
    delays: [Duration; 2],
    to: Arc<(Mutex<Option<SocketAddr>>, Condvar)>,
}

impl Link {
    /// A link that delays what goes to its end so long, and so long what comes back; and where it is entered. It forwards for as long as this process runs.
    ///
    /// # Errors
    /// There is no port for it.
    pub fn new(delays: [Duration; 2]) -> Result<(Link, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for a slow link")?;
        let entry = listener.local_addr()?;
        let link = Link { delays, to: Arc::default() };
        let its = link.clone();
        thread::spawn(move || {
            for one in listener.incoming().flatten() {
                let link = its.clone();
                thread::spawn(move || link.forward(one));
            }
        });
        Ok((link, entry))
    }

    /// Where it leads. What connects before waits.
    pub fn leads_to(&self, address: SocketAddr) {
        let (to, told) = &*self.to;
        *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        told.notify_all();
    }

    fn target(&self) -> Option<SocketAddr> {
        let (to, told) = &*self.to;
        let to = to.lock().unwrap_or_else(PoisonError::into_inner);
        *told.wait_while(to, |to| to.is_none()).unwrap_or_else(PoisonError::into_inner)
    }

    fn forward(&self, one: TcpStream) {
        let Some(other) = self.target().and_then(|address| TcpStream::connect(address).ok()) else { return };
        let (Ok(back), Ok(forth)) = (one.try_clone(), other.try_clone()) else { return };
        // What is small mustn't wait for more.
        let (_, _) = (one.set_nodelay(true), other.set_nodelay(true));
        let [there, home] = self.delays;
        thread::spawn(move || carry(forth, back, home));
        carry(one, other, there);
    }
}

/// Reads at once and writes when it is time, so that what is on its way never holds up what comes behind it.
fn carry(mut from: TcpStream, to: TcpStream, delay: Duration) {
    let (sent, arriving) = channel();
    let writer = thread::spawn(move || deliver(&arriving, to));
    let mut bytes = vec![0; CHUNK];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if sent.send((Instant::now() + delay, bytes[..n].to_vec())).is_err() {
            break;
        }
    }
    drop(sent);
    let (_, _) = (writer.join(), from.shutdown(Shutdown::Both));
}

fn deliver(arriving: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due, bytes) in arriving {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
}

/// How long a byte takes there and back through a link with these delays: the median of some.
///
/// # Errors
/// There is no port, or a connection breaks.
pub fn round_trip(delays: [Duration; 2]) -> Result<Duration> {
    let echo = TcpListener::bind("127.0.0.1:0")?;
    let (link, entry) = Link::new(delays)?;
    link.leads_to(echo.local_addr()?);
    let server = thread::spawn(move || -> std::io::Result<()> {
        let (mut one, _) = echo.accept()?;
        one.set_nodelay(true)?;
        let mut byte = [0];
        while one.read(&mut byte)? == 1 {
            one.write_all(&byte)?;
        }
        Ok(())
    });
    let mut client = TcpStream::connect(entry)?;
    client.set_nodelay(true)?;
    let mut times = Vec::new();
    for _ in 0..25 {
        let start = Instant::now();
        client.write_all(&[1])?;
        client.read_exact(&mut [0])?;
        times.push(start.elapsed());
    }
    drop(client);
    // Its connection ends with the client's.
    _ = server.join();
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_late_in_order_and_without_waiting_for_each_other() {
        let delay = Duration::from_millis(30);
        let sink = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (link, entry) = Link::new([delay, Duration::ZERO]).expect("a link");
        let mut client = TcpStream::connect(entry).expect("a connection");
        link.leads_to(sink.local_addr().expect("an address"));
        let (mut server, _) = sink.accept().expect("a connection");
        let start = Instant::now();
        let sent: Vec<u8> = (0..20).collect();
        for byte in &sent {
            client.write_all(&[*byte]).expect("sent");
            thread::sleep(Duration::from_millis(2));
        }
        drop(client);
        let mut arrived = [0];
        server.read_exact(&mut arrived).expect("a byte");
        assert!(start.elapsed() >= delay, "{:?}", start.elapsed());
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).expect("the rest");
        assert_eq!([&arrived[..], &rest].concat(), sent);
        // One after the other would take 20 delays.
        assert!(start.elapsed() < 10 * delay, "{:?}", start.elapsed());
    }

    #[test]
    fn a_round_trip_takes_both_delays() {
        let delay = Duration::from_millis(3);
        assert!(round_trip([delay, 2 * delay]).expect("a round trip") >= 3 * delay);
    }
}

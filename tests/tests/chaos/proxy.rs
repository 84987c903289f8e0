//! A wire that can be cut: forwards connections until it is told not to, and then neither forwards nor closes any.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Clone, Default)]
pub(crate) struct Wire {
    to: Arc<OnceLock<SocketAddr>>,
    cut: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl Wire {
    /// Listens at once; what connects waits until it is known where to.
    pub(crate) fn new() -> (Wire, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Wire::default();
        let its = wire.clone();
        std::thread::spawn(move || {
            for one in listener.incoming().flatten() {
                let wire = its.clone();
                std::thread::spawn(move || wire.forward(one));
            }
        });
        (wire, address)
    }

    pub(crate) fn leads_to(&self, address: SocketAddr) {
        self.to.set(address).unwrap();
    }

    pub(crate) fn cut(&self) {
        self.cut.store(true, Relaxed);
    }

    /// How much went through.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn forward(&self, one: TcpStream) {
        while self.to.get().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let Ok(other) = TcpStream::connect(self.to.get().unwrap()) else { return };
        let (back, forth) = (one.try_clone().unwrap(), other.try_clone().unwrap());
        let wire = self.clone();
        std::thread::spawn(move || wire.pump(forth, back));
        self.pump(one, other);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
        let mut bytes = [0; 1 << 14];
        loop {
            let n = from.read(&mut bytes).unwrap_or(0);
            // A cut wire says nothing, not even that it is over.
            while self.cut.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
            self.bytes.fetch_add(n as u64, Relaxed);
            if n == 0 || to.write_all(&bytes[..n]).is_err() {
                let (_, _) = (to.shutdown(std::net::Shutdown::Both), from.shutdown(std::net::Shutdown::Both));
                return;
            }
        }
    }
}

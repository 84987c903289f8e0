//! A wire that can be cut, forwarding connections until then: silently, or so that both ends are told; or that changes what it carries.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Clone, Default)]
pub(crate) struct Wire {
    to: Arc<OnceLock<SocketAddr>>,
    cut: Arc<AtomicBool>,
    severed: Arc<AtomicBool>,
    falsified: Arc<AtomicBool>,
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

    /// From here on nothing is forwarded, and nothing closed.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Relaxed);
    }

    /// Closes all connections, and every new one at once.
    pub(crate) fn sever(&self) {
        self.severed.store(true, Relaxed);
    }

    /// From here on one bit in the middle of whatever comes is another one.
    pub(crate) fn falsify(&self) {
        self.falsified.store(true, Relaxed);
    }

    /// How much went through.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn forward(&self, one: TcpStream) {
        while self.to.get().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.severed.load(Relaxed) {
            return;
        }
        let Ok(other) = TcpStream::connect(self.to.get().unwrap()) else { return };
        let (back, forth) = (one.try_clone().unwrap(), other.try_clone().unwrap());
        let wire = self.clone();
        std::thread::spawn(move || wire.pump(forth, back));
        self.pump(one, other);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
        from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut bytes = [0; 1 << 14];
        loop {
            let n = match from.read(&mut bytes) {
                _ if self.severed.load(Relaxed) => 0,
                Ok(n) => n,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => 0,
            };
            // A cut wire says nothing, not even that it is over.
            while self.cut.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
            self.bytes.fetch_add(n as u64, Relaxed);
            if self.falsified.load(Relaxed) {
                bytes[n / 2] ^= 4;
            }
            if n == 0 || to.write_all(&bytes[..n]).is_err() {
                let (_, _) = (to.shutdown(std::net::Shutdown::Both), from.shutdown(std::net::Shutdown::Both));
                return;
            }
        }
    }
}

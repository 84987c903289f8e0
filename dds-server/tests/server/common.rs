//! A driver and peers as small as they can be.

use std::time::Duration;

use stradsap_dds_server::frame::{self, Header};
use stradsap_dds_server::hello::{GreetError, Hello, Purpose, Role};
use stradsap_dds_server::link::{Link, greet, welcome};
use stradsap_dds_server::net;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::stream::Listener;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Driver {
    pub(crate) listener: Listener,
    pub(crate) secret: Secret,
    pub(crate) me: Hello,
}

/// What a server opens to its driver.
pub(crate) struct Joined {
    pub(crate) control: Link,
    pub(crate) heart: Link,
    pub(crate) hello: Hello,
}

impl Driver {
    pub(crate) async fn new() -> Driver {
        Driver {
            listener: net::bind("127.0.0.1:0", false).await.unwrap(),
            secret: Secret::generate().unwrap(),
            me: Hello::of_this_process(Role::Driver, Purpose::Control).unwrap(),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    async fn accept(&self, purpose: Purpose) -> (Link, Hello) {
        let (stream, _) = self.listener.accept().await.unwrap();
        let (link, hello) = welcome(stream, &self.secret, &self.me, |_| Ok(())).await.unwrap();
        assert_eq!((hello.role, hello.purpose), (Role::Server, purpose));
        (link, hello)
    }

    pub(crate) async fn join(&self) -> Joined {
        let (control, hello) = self.accept(Purpose::Control).await;
        let (heart, _) = self.accept(Purpose::Heartbeat).await;
        Joined { control, heart, hello }
    }

    /// A data connection as a worker would open it.
    pub(crate) async fn connect(&self, address: &str) -> Result<Link, GreetError> {
        let me = Hello { role: Role::Worker, purpose: Purpose::Data, ..self.me.clone() };
        let stream = net::connect(address, 10 * SECOND).await.unwrap();
        Ok(greet(stream, &self.secret, &me).await?.0)
    }
}

pub(crate) async fn ask(stream: &mut Link, header: Header, payload: &[u8]) -> (Header, Vec<u8>) {
    frame::write_frame(stream, header, payload).await.unwrap();
    let answer = frame::read_header(stream, 1 << 30).await.unwrap().expect("an answer");
    let payload = frame::read_payload(stream, &answer).await.unwrap();
    assert_eq!((answer.call, answer.dds, answer.tag), (header.call, header.dds, header.tag));
    (answer, payload)
}

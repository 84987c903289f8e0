//! Becoming part of a job: finding the driver, proving the secret to each other, and staying in touch.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use stradsap_dds_server::codec::{Bounded, MAX_MESSAGE};
use stradsap_dds_server::hello::{GreetError, Hello, Purpose, Role};
use stradsap_dds_server::link::{Link, greet};
use stradsap_dds_server::net;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::stream::{Listener, Stream};
use stradsap_dds_server::tasks;
use tarpc::server::{BaseChannel, Channel};
use tokio::time::Instant;
use tokio_util::codec::LengthDelimitedCodec;

use crate::cluster::launch::rendezvous::{PATIENCE, Seeker};
use crate::cluster::wire::protocol::{Control, ControlClient};
use crate::cluster::worker::{Server, again};
use crate::launch::roles::Join;
use crate::session::error::{ClusterError, Error, Result};

/// How long a driver may take to come up.
const COMING_UP: Duration = Duration::from_secs(300);
const TELLING: Duration = Duration::from_secs(5);
const ONE_TRY: Duration = Duration::from_secs(2);
/// How long a driver that answers may take until it has heard of this process.
const AGAIN: Duration = Duration::from_secs(10);

/// A runtime for a process's network, on the thread that blocks on it.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })
}

/// A process that has joined.
pub(crate) struct Joined {
    /// What it says of itself, its number included.
    pub(crate) me: Hello,
    pub(crate) secret: Secret,
    pub(crate) control: Link,
    pub(crate) listener: Listener,
    /// For signs of life.
    pub(crate) heart: Link,
}

fn problem(what: impl std::fmt::Display) -> Error {
    Error::Cluster(ClusterError::Join(what.to_string()))
}

/// Joins a job.
pub(crate) async fn join(at: &Join, role: Role, threads: u32, index: Option<u32>) -> Result<Joined> {
    let me = Hello::of_this_process(role, Purpose::Control).map_err(problem)?;
    let me = Hello { threads, index, ..me };
    match at {
        Join::Address(address) => {
            let secret = Secret::from_environment().map_err(problem)?.ok_or_else(|| {
                Error::usage(
                    "a worker needs the job's secret: set STRADSAP_SECRET, or STRADSAP_SECRET_FILE to a file that \
                     only you can read",
                )
            })?;
            let control = reach(address).await?;
            greeted(address, secret, control, me, AGAIN).await
        }
        Join::Rendezvous(path) => {
            let mut seeker = Seeker::new(path, PATIENCE);
            let mut refused = None;
            loop {
                // Another process may answer: what the file says may be left of an earlier run.
                let meeting = seeker.next().map_err(|error| refused.take().unwrap_or(error))?;
                let secret = Secret::from_hex(&meeting.secret).map_err(problem)?;
                for address in &meeting.addresses {
                    let Ok(control) = net::connect(address, ONE_TRY).await else { continue };
                    match greeted(address, secret.clone(), control, me.clone(), Duration::ZERO).await {
                        Ok(joined) => return Ok(joined),
                        Err(error) => refused = Some(error),
                    }
                }
            }
        }
    }
}

/// Introduces itself over both connections that a driver expects; tries the first of them again for a while.
async fn greeted(address: &str, secret: Secret, mut stream: Stream, mut me: Hello, again: Duration) -> Result<Joined> {
    let local = stream.local_addr().map_err(problem)?;
    let listener = listen(local).await?;
    let bound = listener.local_addr().map_err(problem)?;
    let ip = if bound.ip().is_unspecified() { local.ip() } else { bound.ip() };
    me.address = advertised().unwrap_or_else(|| SocketAddr::new(ip, bound.port()).to_string());
    let (since, mut told) = (Instant::now(), false);
    let (control, driver) = loop {
        match greet(stream, &secret, &me).await {
            Ok(there) => break there,
            // Perhaps strangers crowd there.
            Err(error) if error.is_worth_a_try(since.elapsed(), again) => {
                if since.elapsed() > TELLING && !std::mem::replace(&mut told, true) {
                    eprintln!("waiting for the driver at {address}: {error}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                stream = net::connect(address, ONE_TRY).await.map_err(problem)?;
            }
            Err(error) => return Err(problem(format!("{address}: {error}"))),
        }
    };
    control.be_patient(driver.role);
    let greeting = Hello { purpose: Purpose::Heartbeat, ..me.clone() };
    let since = Instant::now();
    let heart = loop {
        let heart = net::connect(address, ONE_TRY).await.map_err(problem)?;
        match greet(heart, &secret, &greeting).await {
            Ok((heart, _)) => break heart,
            // The driver may not have finished with the first connection.
            Err(GreetError::Refused(_)) if since.elapsed() < ONE_TRY => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) if error.is_worth_a_try(since.elapsed(), AGAIN) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(problem(format!("{address}: {error}"))),
        }
    };
    Ok(Joined { me, secret, control, listener, heart })
}

/// Where others reach this process, if not where it listens: behind a proxy or an address translation.
fn advertised() -> Option<String> {
    std::env::var("STRADSAP_ADVERTISE").ok().map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
}

/// Where this process listens for data: where `STRADSAP_BIND` says, otherwise where the driver reaches it.
async fn listen(local: SocketAddr) -> Result<Listener> {
    let named = std::env::var("STRADSAP_BIND").ok().filter(|text| !text.is_empty());
    let address = match named {
        Some(host) => format!("{host}:0"),
        None if local.ip().is_loopback() => SocketAddr::new(local.ip(), 0).to_string(),
        None => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).to_string(),
    };
    // The driver has been found with a secret that a person or the driver gave.
    net::bind(&address, true).await.map_err(problem)
}

/// A connection to a driver, which may not be up yet.
async fn reach(address: &str) -> Result<Stream> {
    let since = Instant::now();
    let patience = if again::had_joined() { ONE_TRY } else { COMING_UP };
    let (mut pause, mut reported) = (Duration::from_millis(10), false);
    loop {
        match net::connect(address, ONE_TRY).await {
            Ok(stream) => return Ok(stream),
            Err(error) if since.elapsed() > patience => return Err(problem(error)),
            Err(error) if !reported && since.elapsed() > TELLING => {
                reported = true;
                eprintln!("waiting for the driver at {address}: {error}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

fn framed(stream: Link) -> tokio_util::codec::Framed<Link, LengthDelimitedCodec> {
    LengthDelimitedCodec::builder().max_frame_length(MAX_MESSAGE).new_framed(stream)
}

/// Serves the driver until it ends the connection.
pub(crate) fn serve_control(stream: Link, server: Server) -> impl Future<Output = ()> {
    let transport = tarpc::serde_transport::new(framed(stream), Bounded::default());
    BaseChannel::with_defaults(transport).execute(server.serve()).for_each(|request| async move {
        tasks::spawn(request);
    })
}

/// The driver's end of a worker's control connection. Within the runtime.
pub(crate) fn control_client(stream: Link) -> ControlClient {
    let transport = tarpc::serde_transport::new(framed(stream), Bounded::default());
    let made = ControlClient::new(tarpc::client::Config::default(), transport);
    // It ends with the connection, and says so to who asks something.
    tasks::spawn(made.dispatch);
    made.client
}

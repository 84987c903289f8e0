//! What the processes of a [stradsap](https://docs.rs/stradsap) job share: the frames that carry parts, the codec of
//! control messages, the handshake that proves the job's secret, and the server that keeps snapshots of parts.
//!
//! A server knows layouts and bytes, never the program's types. Everything that comes from a socket is bounded and checked before
//! it is used: [`hello`] refuses peers that don't know the [`secret`], a [`link`] that leaves the machine is sealed (encrypted),
//! [`frame`] and [`codec`] compare every length with what is allowed, and [`store`] holds no more bytes than its limit.
//!
//! The `dds-server` binary is [`server::run`]; worker processes embed the same [`store`] with
//! [`server::serve_connection`].
//!
//! Everything that uses sockets is the feature `net`, and the binary is the feature `bin`; both are on by default. [`amounts`],
//! [`codec`], [`logging`], [`process`] and [`records`] need neither, for programs of one process.

pub mod amounts;
pub mod codec;
pub mod logging;
pub mod process;
pub mod records;

#[cfg(feature = "net")]
pub mod frame;
#[cfg(feature = "net")]
pub mod gate;
#[cfg(feature = "net")]
pub mod heartbeat;
#[cfg(feature = "net")]
pub mod hello;
#[cfg(feature = "net")]
pub mod link;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
pub mod own_time;
#[cfg(feature = "net")]
pub mod seal;
#[cfg(feature = "net")]
pub mod secret;
#[cfg(feature = "net")]
pub mod server;
#[cfg(feature = "net")]
pub mod signals;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(feature = "net")]
pub mod store;
#[cfg(feature = "net")]
pub mod stream;
#[cfg(feature = "net")]
pub mod tasks;

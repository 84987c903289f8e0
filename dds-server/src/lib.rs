//! What the processes of a [stradsap](https://docs.rs/stradsap) job share: the frames that carry parts, the codec of
//! control messages, the handshake that proves the job's secret, and the server that keeps snapshots of parts.
//!
//! A server knows layouts and bytes, never user types. Everything that comes off a socket is bounded and checked before
//! it is believed: [`hello`] lets nobody speak who does not know the [`secret`], [`frame`] and [`codec`] refuse by
//! arithmetic what claims more than it may, and [`store`] holds no more bytes than it was given.
//!
//! The `dds-server` binary is [`server::run`]; worker processes embed the same [`store`] with
//! [`server::serve_connection`].

pub mod codec;
pub mod frame;
pub mod gate;
pub mod heartbeat;
pub mod hello;
pub mod logging;
pub mod net;
mod process;
pub mod secret;
pub mod server;
pub mod store;

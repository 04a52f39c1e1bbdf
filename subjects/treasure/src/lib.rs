//! A real-time coin hunt. A player's tap draws a coin; the coin is answered once it is in the log.
//!
//! - [`protocol`], [`record`]: bytes on the wire and in the log, pure
//! - [`session`], [`game`]: memory and rules
//! - [`log`], [`snapshot`]: what survives
//! - [`net`]: tokio (epoll), io_uring, and HTTP with WebSocket beside either

pub mod figures;
pub mod game;
pub mod log;
pub mod net;
pub mod protocol;
pub mod record;
pub mod session;
pub mod snapshot;

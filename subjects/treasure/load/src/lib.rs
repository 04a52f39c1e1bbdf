//! Players for the treasure server: taps that are due at times fixed in advance, whatever the server does.
//!
//! - [`ramp`]: when taps are due, while the rate rises
//! - [`player`]: one connection: its session, its unanswered taps, coming back after a loss
//! - [`crowd`]: a thread of players, with a timer finer than epoll's
//! - [`pauses`]: stretches in which players waited
//! - [`fill`]: sessions without a connection, opened and tapped in bulk
//! - [`tokens`]: their tokens in a file, for a load that goes on

pub mod crowd;
pub mod fill;
pub mod pauses;
pub mod player;
pub mod ramp;
pub mod tokens;

//! Plays the other side of the relay subject: the hosts it dials, and the consumers it serves.

pub mod consumers;
pub mod hosts;
pub mod identifiers;
pub mod message;
pub mod records;
pub mod sent;
pub mod tree;

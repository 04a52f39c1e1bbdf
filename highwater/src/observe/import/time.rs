//! Instants as foreign files write them; read as everywhere else.

pub use crate::units::instant::parse_instant;

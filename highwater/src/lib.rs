//! highwater

pub mod cli;
pub mod subject;

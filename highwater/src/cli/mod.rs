//! The verbs: each joins the stages it needs.

pub mod log;

//! What is under study, and what it runs on.

pub mod allocator;

//! The sampler that highwater's heap probe and the meter of highwater-alloc share.
//!
//! It works on the sections of a mapping (layout: the `abi` crate) that several threads write and `highwater` copies
//! from outside. It takes no lock, allocates nothing and calls nothing of the system: memory, clock, stacks and names
//! of threads come in by arguments.
//!
//! Every word that a second thread can reach is written through atomics ([`word`]). A thread's own row needs no more
//! than relaxed loads and stores ([`count`], [`distance`]), which are plain instructions; the row that threads share is
//! counted with read-modify-write operations ([`shared`]). `make miri` and `make loom` run the tests and the models of
//! this.

#![cfg_attr(not(any(test, loom)), no_std)]
#![deny(missing_docs)]

pub mod count;
pub mod distance;
pub mod draw;
pub mod filter;
pub mod flows;
pub mod live;
#[cfg(all(test, loom))]
mod models;
pub mod modules;
pub mod pace;
pub mod roles;
pub mod samples;
pub mod shared;
pub mod stacks;
pub mod threads;
pub mod word;

pub use filter::Filter;

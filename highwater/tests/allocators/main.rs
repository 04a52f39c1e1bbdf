//! `highwater allocators` from outside, with a stand-in for cargo that lays out a tiny allocator
//! under the names the mimalloc recipes expect: everything else (lock, compiler, checks, the
//! rename) is real, and no network is needed. The tests that fetch are marked as long.

mod add;
mod bench;
mod check;
mod package;
mod programs;
mod real;
mod refuse;
#[path = "../said/mod.rs"]
mod said;
mod smoke;
mod successor;

//! `highwater explain` on programs whose fault is known. CI runs a handful; the whole table, other
//! allocators and languages are `#[ignore]`d for their length (`make test-long`).

mod attached;
mod bad_input;
mod budget;
mod bypass;
mod cores;
mod experiment;
mod kernel;
mod languages;
mod linked;
mod losses;
mod managed;
mod schema;
mod shapes;
mod stage;

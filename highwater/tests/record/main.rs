//! The record: what is written comes back, whoever is killed, whatever the disk does, whatever lies there.

mod build;
mod full;
mod kill;
mod refuse;
mod round_trip;
mod schema;

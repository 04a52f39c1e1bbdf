//! `highwater stalls`: the analysis over timelines kept as text, and the command over small
//! services whose own log is the truth.

mod clock;
mod connections;
mod experiment;
mod harm;
mod hostile;
mod recorded;
mod services;
mod shape;
mod timelines;
mod viewer;
mod watched;

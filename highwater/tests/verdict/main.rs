//! `highwater verdict` as its users meet it: on runs, on files, on servers that answer well, badly or not at
//! all, and on a real Prometheus and a real VictoriaMetrics.

mod bombs;
mod fleet;
mod own;
#[path = "../run/scene.rs"]
#[allow(dead_code, reason = "its other half is used by `run`")]
mod scene;
mod served;
mod store;

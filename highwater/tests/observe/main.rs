//! `highwater observe` as its users meet it: a page for a scraper, clients that misbehave, processes that come and
//! go; and a fleet: real stores that scrape two hosts, and verdicts that are those of the local record.

mod dashboard;
mod door;
mod endpoint;
mod fleet;
mod hosts;
#[path = "../run/scene.rs"]
#[allow(dead_code, reason = "its other half is used by `run`")]
mod scene;
mod stage;
#[path = "../verdict/store.rs"]
mod store;

//! Series, rates, costs and latencies out of a run.

use std::time::Duration;

use crate::synthetic::{judged, relay};
use highwater::analyse::arms::{arm_series, is_counter};
use highwater::analyse::cost::{arm_costs, over_processes, own_cost, rss_peak};
use highwater::analyse::latency::{arm_requests, latency_over_time};

#[test]
fn debug_print() {
    let run = relay().run();
    let v = judged::verdict(&run);
    println!("{}\n{:#?}", v.headline, v.learnings);
    let _ = (
        arm_series,
        is_counter,
        arm_costs,
        over_processes,
        own_cost,
        rss_peak,
        arm_requests,
        latency_over_time,
        Duration::ZERO,
    );
    println!("{:?}", v.checks);
}

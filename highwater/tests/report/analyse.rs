//! Series, rates, costs and latencies out of a run, on numbers small enough to check by hand.

use std::time::Duration;

use hdrhistogram::Histogram;
use observe::snapshot::{Event, EventKind, HistogramRow, ProcessId, Role};
use record::run::{Process, Run};
use series::arms::{arm_series, is_counter};
use series::latency::arm_requests;
use series::latency::over_time::over_time;
use series::replicas::over_processes;
use verdict::cost::{arm_costs, own_cost, rss_peak};

use crate::synthetic::{Curve, Plan, Synthetic, at, encode, relay};

/// One arm, nothing recorded yet.
fn empty() -> Run {
    let flat = Curve::Saw {
        base: 0.0,
        height: 0.0,
        period_s: 1.0,
    };
    let plan = Plan {
        name: "tiny".into(),
        arms: vec![Synthetic::new("a", "glibc", flat)],
        replicas: 2,
        duration_s: 100.0,
        interval_s: 10.0,
        seed: 1,
        with_latency: false,
    };
    let mut run = plan.run();
    run.processes.clear();
    run.events.clear();
    run
}

fn process(run: &mut Run, replica: u32, incarnation: u32, started_s: f64) -> &mut Process {
    let id = ProcessId(run.processes.len() as i64 + 1);
    run.processes.push(Process {
        id,
        arm: "a".into(),
        replica,
        incarnation,
        role: Role::Subject,
        pid: 100,
        start_ticks: 1,
        started: at(started_s),
        ended: None,
        exit: None,
        command: Vec::new(),
        samples: Default::default(),
        facts: Default::default(),
        histograms: Vec::new(),
    });
    run.processes.last_mut().expect("just pushed")
}

fn samples(process: &mut Process, metric: &str, readings: &[(f64, f64)]) {
    let readings = readings
        .iter()
        .map(|(t_s, value)| (at(*t_s), *value))
        .collect();
    process.samples.insert(metric.to_string(), readings);
}

fn row(process: ProcessId, from_s: f64, to_s: f64, ms: &[u64]) -> HistogramRow {
    let mut histogram = Histogram::<u64>::new(3).expect("3 digits");
    ms.iter()
        .for_each(|ms| histogram.record(ms * 1_000_000).expect("auto-resizing"));
    HistogramRow {
        process,
        start: at(from_s),
        end: at(to_s),
        metric: "latency".into(),
        requests: ms.len() as u64,
        errors: 1,
        dropped: 0,
        histogram: encode(&histogram),
    }
}

fn points(series: &series::series::Series) -> Vec<(f64, f64)> {
    series
        .points
        .iter()
        .map(|point| (point.t_s, point.value))
        .collect()
}

#[test]
fn a_restart_joins_on_run_time_and_starts_anew_on_uptime() {
    let mut run = empty();
    samples(
        process(&mut run, 0, 0, 10.0),
        "rss_bytes",
        &[(10.0, 1.0), (20.0, 2.0), (30.0, 3.0)],
    );
    samples(
        process(&mut run, 0, 1, 50.0),
        "rss_bytes",
        &[(50.0, 7.0), (60.0, 8.0)],
    );
    run.experiment.subject.memory_limit = Some(64);
    let arms = arm_series(&run, "rss_bytes", Duration::from_secs(10));
    let replica = &arms[0].replicas[0];
    assert_eq!(replica.id, "a/0");
    assert_eq!(
        points(&replica.joined),
        [(20.0, 2.0), (30.0, 3.0), (60.0, 8.0)]
    );
    assert_eq!(replica.joined.restarts_s, [50.0]);
    assert_eq!(replica.joined.limit, Some(64.0));
    assert_eq!(points(&replica.incarnations[0]), [(10.0, 2.0), (20.0, 3.0)]);
    assert_eq!(points(&replica.incarnations[1]), [(10.0, 8.0)]);
}

#[test]
fn an_arm_without_a_process_is_there_and_empty() {
    let arms = arm_series(&empty(), "rss_bytes", Duration::ZERO);
    assert_eq!(arms.len(), 1);
    assert!(arms[0].replicas.is_empty());
}

#[test]
fn counters_become_rates_and_begin_anew_with_each_incarnation() {
    let mut run = empty();
    samples(
        process(&mut run, 0, 0, 0.0),
        "minor_faults",
        &[(0.0, 0.0), (10.0, 100.0), (20.0, 300.0)],
    );
    samples(
        process(&mut run, 0, 1, 40.0),
        "minor_faults",
        &[(40.0, 5.0), (50.0, 25.0)],
    );
    let arms = arm_series(&run, "minor_faults", Duration::ZERO);
    assert_eq!(
        points(&arms[0].replicas[0].joined),
        [(10.0, 10.0), (20.0, 20.0), (50.0, 2.0)]
    );
    // 300 + 20 faults in 20 + 10 seconds; the fall between the incarnations counts for nothing.
    let faults = arm_costs(&run, Duration::ZERO)[0]
        .minor_faults_per_second
        .expect("measured");
    assert!((faults.value - 320.0 / 30.0).abs() < 1e-9);
    assert_eq!(
        (faults.lo, faults.hi),
        (faults.value, faults.value),
        "one replica has no interval"
    );
}

#[test]
fn a_counter_that_falls_within_an_incarnation_begins_anew() {
    let mut run = empty();
    let readings = [(0.0, 100.0), (10.0, 200.0), (20.0, 50.0), (30.0, 150.0)];
    samples(process(&mut run, 0, 0, 0.0), "minor_faults", &readings);
    let arms = arm_series(&run, "minor_faults", Duration::ZERO);
    assert_eq!(
        points(&arms[0].replicas[0].joined),
        [(10.0, 10.0), (30.0, 10.0)]
    );
}

#[test]
fn cpu_is_a_share_of_one_core_with_a_t_interval_over_replicas() {
    let mut run = empty();
    for (replica, share) in [(0, 0.2), (1, 0.4)] {
        let readings = [(0.0, 0.0), (100.0, share * 100.0 * 1e9)];
        samples(process(&mut run, replica, 0, 0.0), "cpu_user_ns", &readings);
    }
    let cpu = arm_costs(&run, Duration::ZERO)[0]
        .cpu_user
        .expect("measured");
    assert!((cpu.value - 0.3).abs() < 1e-12);
    // t(0.975, 1) = 12.706; standard error 0.1.
    assert!(
        (cpu.hi - (0.3 + 12.706_204_736 * 0.1)).abs() < 1e-6,
        "{cpu:?}"
    );
    assert!((cpu.value - cpu.lo - (cpu.hi - cpu.value)).abs() < 1e-12);
}

#[test]
fn the_mean_over_processes_ignores_what_is_no_number() {
    assert_eq!(over_processes(&[]), None);
    assert_eq!(over_processes(&[f64::NAN]), None);
    let one = over_processes(&[f64::NAN, 4.0]).expect("one value");
    assert_eq!((one.value, one.lo, one.hi), (4.0, 4.0, 4.0));
}

#[test]
fn shares_are_of_the_rss_at_the_same_instants() {
    let mut run = empty();
    let process = process(&mut run, 0, 0, 0.0);
    samples(
        process,
        "rss_bytes",
        &[(0.0, 100.0), (10.0, 200.0), (20.0, 1_000.0)],
    );
    samples(process, "lazy_free_bytes", &[(0.0, 10.0), (10.0, 20.0)]);
    assert_eq!(
        arm_costs(&run, Duration::ZERO)[0].lazy_free_share,
        Some(0.1)
    );
    assert_eq!(arm_costs(&run, Duration::ZERO)[0].huge_pages_share, None);
}

#[test]
fn histograms_are_merged_not_averaged() {
    let mut run = empty();
    // 99 fast requests in one process, one of 50 ms in the other: a mean of p50s would say 25 ms.
    let first = process(&mut run, 0, 0, 0.0);
    first.histograms = vec![row(first.id, 0.0, 60.0, &[1; 99])];
    let second = process(&mut run, 1, 0, 0.0);
    second.histograms = vec![row(second.id, 0.0, 60.0, &[50])];
    let requests = arm_requests(&run, "a", Duration::ZERO);
    let latency = requests.latency.expect("requests");
    assert!((latency.p50_ns as f64 - 1e6).abs() < 2e3 && (latency.max_ns as f64 - 5e7).abs() < 1e5);
    assert_eq!(
        (latency.requests, requests.errors, requests.unreadable),
        (100, 2, 0)
    );
    assert_eq!(requests.rates, [99.0 / 60.0, 1.0 / 60.0]);
    // Both intervals had a request of 1 ms or more; two processes for a minute each.
    assert_eq!(latency.pauses_per_minute, 1.0);
}

#[test]
fn latency_leaves_the_warmup_out_and_counts_what_it_cannot_read() {
    let mut run = empty();
    let process = process(&mut run, 0, 0, 0.0);
    process.histograms = vec![
        row(process.id, 0.0, 10.0, &[900]),
        row(process.id, 10.0, 20.0, &[2]),
    ];
    process.histograms.push(HistogramRow {
        histogram: b"no histogram".to_vec(),
        ..process.histograms[1].clone()
    });
    let requests = arm_requests(&run, "a", Duration::from_secs(10));
    assert!(requests.latency.expect("requests").max_ns < 3_000_000);
    assert_eq!(requests.unreadable, 1);
}

#[test]
fn load_lines_win_over_what_the_subject_says_itself() {
    let mut run = empty();
    let process = process(&mut run, 0, 0, 0.0);
    let own = HistogramRow {
        metric: "openmetrics:handle_seconds".into(),
        ..row(process.id, 0.0, 10.0, &[700])
    };
    process.histograms = vec![own];
    assert_eq!(
        arm_requests(&run, "a", Duration::ZERO)
            .latency
            .expect("its own")
            .requests,
        1
    );
    let id = run.processes[0].id;
    run.processes[0]
        .histograms
        .push(row(id, 0.0, 10.0, &[2, 2]));
    let latency = arm_requests(&run, "a", Duration::ZERO)
        .latency
        .expect("load lines");
    assert_eq!(latency.requests, 2);
    assert!(latency.max_ns < 3_000_000);
}

/// The meter of highwater-alloc shows how long its calls take: no requests of the service.
#[test]
fn calls_of_a_metered_allocator_are_no_requests() {
    let mut run = empty();
    let process = process(&mut run, 0, 0, 0.0);
    let metered = HistogramRow {
        metric: "openmetrics:highwater_alloc_allocation_seconds".into(),
        ..row(process.id, 0.0, 10.0, &[700])
    };
    process.histograms = vec![metered.clone()];
    assert!(arm_requests(&run, "a", Duration::ZERO).latency.is_none());
    let own = HistogramRow {
        metric: "openmetrics:http_request_seconds".into(),
        ..row(run.processes[0].id, 0.0, 10.0, &[2, 2])
    };
    run.processes[0].histograms = vec![metered, own];
    let latency = arm_requests(&run, "a", Duration::ZERO).latency;
    assert_eq!(latency.expect("its own").requests, 2);
}

#[test]
fn latency_over_time_has_no_stretch_shorter_than_two_recorded_intervals() {
    let mut run = empty();
    let process = process(&mut run, 0, 0, 0.0);
    process.histograms = (0..10)
        .map(|i| {
            row(
                process.id,
                i as f64 * 10.0,
                i as f64 * 10.0 + 10.0,
                &[i + 1],
            )
        })
        .collect();
    let line = over_time(&run, "a", 60).points;
    assert_eq!(
        line.iter().map(|p| p.t_s).collect::<Vec<_>>(),
        [10.0, 30.0, 50.0, 70.0, 90.0]
    );
    assert!(line.iter().all(|point| point.latency.requests == 2));
}

#[test]
fn own_cost_counts_every_process_of_ours_and_the_snapshots_that_are_missing() {
    let mut run = empty();
    for (replica, ns) in [(0, 1e9), (1, 3e9)] {
        let own = process(&mut run, replica, 0, 0.0);
        own.role = Role::Highwater;
        samples(own, "cpu_user_ns", &[(0.0, 0.0), (100.0, ns)]);
        samples(own, "rss_bytes", &[(0.0, 5.0), (10.0, 7.0)]);
    }
    samples(
        &mut run.processes[0],
        "look_cost_ns",
        &[(0.0, 1e6), (10.0, 2e6), (40.0, 9e6), (50.0, 2e6)],
    );
    let own = own_cost(&run);
    assert!((own.cpu - 0.04).abs() < 1e-12);
    assert_eq!(
        (own.rss_bytes, own.snapshots, own.snapshots_missed),
        (14.0, 4, 2)
    );
    assert_eq!((own.snapshot_ns_p50, own.snapshot_ns_max), (2e6, 9e6));
}

#[test]
fn the_peak_is_the_kernels_when_it_is_higher() {
    let mut run = empty();
    let process = process(&mut run, 1, 0, 0.0);
    samples(process, "rss_bytes", &[(0.0, 5.0)]);
    samples(process, "rss_peak_bytes", &[(0.0, 9.0)]);
    assert_eq!(rss_peak(&run, "a"), Some((9.0, "a/1".to_string())));
    assert_eq!(rss_peak(&run, "b"), None);
}

#[test]
fn counters_are_known_by_definition_or_by_the_suffix_of_openmetrics() {
    for name in [
        "minor_faults",
        "openmetrics:frames_total",
        "openmetrics:frames_total{host=\"a_b\"}",
    ] {
        assert!(is_counter(name), "{name}");
    }
    for name in ["rss_bytes", "openmetrics:queue_length", "frames_total"] {
        assert!(!is_counter(name), "{name}");
    }
}

#[test]
fn a_whole_synthetic_run_has_all_its_costs() {
    let run = relay().run();
    let costs = arm_costs(&run, run.experiment.warmup);
    assert_eq!(costs.len(), 8);
    let mimalloc = &costs[3];
    let cpu = mimalloc.cpu_system.expect("measured");
    assert!(cpu.lo < 0.21 && 0.21 < cpu.hi, "{cpu:?}");
    assert!(mimalloc.latency.is_some() && mimalloc.requests_per_second.is_some());
}

#[test]
fn a_machine_without_memory_is_a_finding_and_its_warmup_is_none() {
    let gib = 1024.0 * 1024.0 * 1024.0;
    // The warm-up is over 30 s after the first start.
    let told = |readings: &[(f64, f64)]| {
        let mut run = empty();
        process(&mut run, 0, 0, 0.0);
        let host = process(&mut run, 0, 0, 0.0);
        host.role = Role::Host;
        samples(host, "host_memory_total_bytes", &[(0.0, 16.0 * gib)]);
        samples(host, "host_memory_available_bytes", readings);
        run.experiment.warmup = Duration::from_secs(30);
        let found = verdict::run::audited::findings(&run);
        let short = found
            .into_iter()
            .find(|f| f.what.contains("short of memory"));
        short.map(|finding| finding.what)
    };
    assert_eq!(told(&[(0.0, 8.0 * gib), (40.0, 1.0 * gib)]), None);
    assert_eq!(told(&[(10.0, 0.1 * gib), (40.0, 4.0 * gib)]), None);
    assert_eq!(told(&[]), None);
    let words = told(&[(40.0, 4.0 * gib), (50.0, 0.5 * gib), (60.0, 3.0 * gib)]).unwrap();
    assert!(
        words.contains("512 MiB of 16.0 GiB available, 50 s into"),
        "{words}"
    );
}

#[test]
fn a_host_that_gives_the_cpu_to_others_is_a_finding() {
    const SECOND: f64 = 1e9;
    let told = |stolen: &[(f64, f64)]| {
        let mut run = empty();
        process(&mut run, 0, 0, 0.0);
        let host = process(&mut run, 0, 0, 0.0);
        host.role = Role::Host;
        samples(
            host,
            "host_cpu_busy_ns",
            &[(0.0, 0.0), (30.0, 30.0 * SECOND), (90.0, 90.0 * SECOND)],
        );
        samples(host, "host_cpu_stolen_ns", stolen);
        run.experiment.warmup = Duration::from_secs(30);
        let found = verdict::run::audited::findings(&run);
        let stolen = found.into_iter().find(|f| f.what.contains("other guests"));
        stolen.map(|finding| finding.what)
    };
    let at =
        |before: f64, after: f64| [(0.0, 0.0), (30.0, before * SECOND), (90.0, after * SECOND)];
    assert_eq!(told(&at(0.0, 0.9)), None);
    assert_eq!(told(&at(20.0, 20.5)), None, "the warm-up's");
    assert_eq!(told(&[]), None);
    assert_eq!(told(&[(30.0, 7.0)]), None);
    let words = told(&at(0.0, 15.0)).unwrap();
    assert!(words.contains("gave 20 % to other guests"), "{words}");
}

#[test]
fn an_arm_that_was_ended_early_misses_no_snapshot() {
    let missed = |kind: EventKind| {
        let mut run = relay().run();
        let half = at(run.experiment.duration.as_secs_f64() / 2.0);
        let one = run.processes.iter_mut().find(|p| p.role == Role::Subject);
        let one = one.expect("a process");
        let readings = one.samples.values_mut();
        readings.for_each(|readings| readings.retain(|(time, _)| *time <= half));
        run.events.push(Event {
            time: half,
            process: Some(one.id),
            kind,
            words: String::new(),
        });
        let found = verdict::run::audited::findings(&run);
        found.iter().any(|f| f.what.contains("many snapshots"))
    };
    assert!(missed(EventKind::Vanished));
    assert!(!missed(EventKind::Aborted));
}

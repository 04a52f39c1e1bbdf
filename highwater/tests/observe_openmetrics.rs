//! Metrics endpoints: text as real exporters write it, and servers that misbehave.

mod observed;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use observe::collector::{Observer, Options};
use observe::metric;
use observe::openmetrics::parse::parse_exposition;
use observe::openmetrics::series::SERIES_MAX;
use observe::proc::ProcRoot;
use observe::snapshot::{EventKind, ProcessId, Snapshot, Target, TimeNs};
use observed::{Child, SECOND, spawn, value};
use proptest::prelude::*;
use testkit::free_port;

/// Serves a text; what it does with a connection is up to `answer`.
struct Server {
    url: String,
    text: Arc<Mutex<String>>,
}

fn serve(answer: fn(TcpStream, &str)) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let text = Arc::new(Mutex::new(String::new()));
    let shared = text.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let text = shared.lock().unwrap().clone();
            std::thread::spawn(move || answer(stream, &text));
        }
    });
    Server { url, text }
}

fn answer_at_once(mut stream: TcpStream, text: &str) {
    let mut request = [0; 1024];
    let _ = stream.read(&mut request);
    let length = text.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(text.as_bytes()));
}

/// Answers with what was served when it was asked, once the gate is open.
fn answer_behind_a_gate(stream: TcpStream, text: &str) {
    while !GATE.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
    answer_at_once(stream, text);
}

static GATE: AtomicBool = AtomicBool::new(false);

fn answer_never(stream: TcpStream, _: &str) {
    std::thread::sleep(Duration::from_secs(20));
    drop(stream);
}

fn answer_for_ever(mut stream: TcpStream, _: &str) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    while stream.write_all(&[b'#'; 65536]).is_ok() {}
}

/// 1 GiB of empty lines: a mebibyte of them in gzip, 1024 times over.
fn answer_with_a_bomb(mut stream: TcpStream, _: &str) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b'\n'; 1 << 20]).unwrap();
    let body = gzip.finish().unwrap().repeat(1024);
    let _ = stream.read(&mut [0; 1024]);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

/// The largest resident set of this process since it was asked for last.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.unwrap().trim().trim_end_matches(" kB");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn a_gzip_bomb_is_refused_and_not_held() {
    let bomb = endpoint(1, answer_with_a_bomb);
    peak_bytes();
    let snapshot = observer(5_000).snapshot(TimeNs(SECOND), std::slice::from_ref(&bomb.target));
    let peak = peak_bytes();
    eprintln!("peak: {} MiB", peak >> 20);
    let words: Vec<&str> = snapshot.events.iter().map(|e| e.words.as_str()).collect();
    let named = |words: &&&str| {
        words.contains(&bomb.server.url) && words.contains("larger than 8 MiB after decompression")
    };
    assert_eq!(words.iter().filter(named).count(), 1, "{words:?}");
    assert!(peak < 300 << 20, "{peak}");
}

#[test]
fn what_takes_more_memory_than_its_text_has_limits() {
    let labels = format!("a{{{}}} 1\n", "l=\"\",".repeat(1000)).repeat(1000);
    let page = parse_exposition(&labels);
    assert_eq!((page.series.len(), page.beyond), (500, 500));
    assert!(page.limit.unwrap().contains("500000 labels"));
    let types: String = (0..200_001)
        .map(|n| format!("# TYPE a{n} gauge\n"))
        .collect();
    let page = parse_exposition(&types);
    assert_eq!((page.types.len(), page.beyond), (200_000, 1));
    assert!(page.limit.unwrap().contains("200000 lines"));
    let page = parse_exposition(&format!("a{{l=\"{}\"}} 1\nb 2\n", "x".repeat(20_000)));
    assert_eq!((page.series.len(), page.beyond, page.bad_lines), (1, 1, 0));
    assert!(page.limit.unwrap().contains("longer than 16384 bytes"));
}

struct Endpoint {
    server: Server,
    _child: Child,
    target: Target,
}

fn endpoint(process: i64, answer: fn(TcpStream, &str)) -> Endpoint {
    let (server, child) = (serve(answer), spawn("sleep", &["60"]));
    let mut target = child.target(process);
    target.metrics_url = Some(server.url.clone());
    Endpoint {
        server,
        _child: child,
        target,
    }
}

impl Endpoint {
    fn set(&self, text: &str) {
        *self.server.text.lock().unwrap() = text.to_owned();
    }
}

fn observer(wait_ms: u64) -> Observer {
    let options = Options {
        metrics_wait: Duration::from_millis(wait_ms),
        ..Options::default()
    };
    Observer::new(ProcRoot::default(), options)
}

fn named(snapshot: &Snapshot, process: i64, name: &str) -> Option<f64> {
    let found =
        |s: &&observe::snapshot::Sample| s.process == ProcessId(process) && s.metric == name;
    snapshot
        .samples
        .iter()
        .find(found)
        .map(|sample| sample.value)
}

#[test]
fn a_real_page_is_read() {
    let page = observed::fixtures().join("openmetrics/node-exporter-1.5.txt");
    let page = parse_exposition(&std::fs::read_to_string(page).unwrap());
    assert_eq!((page.bad_lines, page.first_bad), (0, None));
    assert_eq!(page.types["process_resident_memory_bytes"], "gauge");
    let find = |name: &str| page.series.iter().find(|series| series.full_name() == name);
    assert!(find("process_resident_memory_bytes").unwrap().value > 1e6);
    assert!(
        find("node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"}")
            .unwrap()
            .value
            > 0.0
    );
    assert_eq!(
        find("go_gc_duration_seconds{quantile=\"0.5\"}")
            .unwrap()
            .labels
            .len(),
        1
    );
}

#[test]
fn what_the_formats_allow() {
    let text = "# TYPE a:b counter\n\
        a:b_total{p=\"x,y=\\\"z\\\"\",a=\"}\"} 5 1700000000 # {trace=\"1\"} 0.5 1.0\n\
        {\"dotted.name\",k=\"v\"} 1e3\n\
        spaced { k = \"v\" , } +Inf\n\
        nan NaN\n\
        utf{k=\"\u{fc}\"} -2.5\n\
        # EOF\n\
        broken{k=\"v} 1\n\
        1two 1\nnovalue\n";
    let page = parse_exposition(text);
    let names: Vec<String> = page
        .series
        .iter()
        .map(|series| series.full_name())
        .collect();
    let expected = [
        "a:b_total{a=\"}\",p=\"x,y=\\\"z\\\"\"}",
        "dotted.name{k=\"v\"}",
        "spaced{k=\"v\"}",
        "nan",
        "utf{k=\"\u{fc}\"}",
        "1two",
    ];
    assert_eq!(names, expected);
    assert_eq!(page.series[0].value, 5.0);
    assert_eq!(page.series[2].value, f64::INFINITY);
    assert_eq!(page.bad_lines, 2);
    assert_eq!(page.first_bad.as_deref(), Some("broken{k=\"v} 1"));
    assert_eq!(page.types["a:b"], "counter");
}

proptest! {
    #[test]
    fn any_text_is_taken(text in "\\PC*", lines in "([a-z{}\"\\\\=,# \n]|[0-9.]){0,300}") {
        let _ = parse_exposition(&text);
        let _ = parse_exposition(&lines);
    }

    #[test]
    fn labels_come_back_as_they_were(value in "\\PC{0,30}", other in "[\\\\\"\n},=]{0,10}") {
        let series = observe::openmetrics::parse::Series {
            name: "m".to_owned(),
            labels: vec![("a".to_owned(), value), ("b".to_owned(), other)],
            value: 1.0,
        };
        let page = parse_exposition(&format!("{} 1", series.full_name()));
        prop_assert_eq!(page.series, vec![series]);
    }
}

#[test]
fn gauges_and_counters_become_samples() {
    let endpoint = endpoint(1, answer_at_once);
    endpoint.set("relay_process_rss_bytes 1e6\nframes_total{host=\"a\"} 7\nodd NaN\n");
    let snapshot = observer(5_000).snapshot(TimeNs(SECOND), std::slice::from_ref(&endpoint.target));
    assert_eq!(
        named(&snapshot, 1, "openmetrics:relay_process_rss_bytes"),
        Some(1e6)
    );
    assert_eq!(
        named(&snapshot, 1, "openmetrics:frames_total{host=\"a\"}"),
        Some(7.0)
    );
    assert_eq!(named(&snapshot, 1, "openmetrics:odd"), None);
    assert_eq!(value(&snapshot, 1, metric::METRICS_LEFT_OUT), Some(1.0));
    assert!(value(&snapshot, 1, metric::METRICS_FETCH).unwrap() > 0.0);
    assert!(snapshot.events.is_empty(), "{:?}", snapshot.events);
}

#[test]
fn series_have_a_limit_and_the_first_ones_stay() {
    let endpoint = endpoint(1, answer_at_once);
    let page = |from: usize| {
        (from..from + SERIES_MAX + 100)
            .map(|i| format!("m{{i=\"{i}\"}} {i}\n"))
            .collect::<String>()
    };
    let mut observer = observer(5_000);
    endpoint.set(&page(0));
    let first = observer.snapshot(TimeNs(SECOND), std::slice::from_ref(&endpoint.target));
    let count = |snapshot: &Snapshot| {
        snapshot
            .samples
            .iter()
            .filter(|s| s.metric.starts_with("openmetrics:"))
            .count()
    };
    assert_eq!(count(&first), SERIES_MAX);
    assert_eq!(value(&first, 1, metric::METRICS_LEFT_OUT), Some(100.0));
    assert_eq!(first.events.len(), 1, "{:?}", first.events);
    endpoint.set(&page(SERIES_MAX - 1)); // only one of the first ones is left
    let second = observer.snapshot(TimeNs(2 * SECOND), std::slice::from_ref(&endpoint.target));
    assert_eq!(count(&second), 1);
    assert!(second.events.is_empty(), "said once");
}

#[test]
fn latency_histograms_become_rows_of_what_happened_between_two_snapshots() {
    let endpoint = endpoint(1, answer_at_once);
    let page = |a: u32, b: u32, c: u32| {
        format!(
            "# TYPE request_seconds histogram\n\
             request_seconds_bucket{{path=\"/\",le=\"0.01\"}} {a}\n\
             request_seconds_bucket{{path=\"/\",le=\"1\"}} {b}\n\
             request_seconds_bucket{{path=\"/\",le=\"+Inf\"}} {c}\n\
             request_seconds_sum{{path=\"/\"}} 3\nrequest_seconds_count{{path=\"/\"}} {c}\n\
             size_bytes_bucket{{le=\"+Inf\"}} 4\n"
        )
    };
    let mut observer = observer(5_000);
    endpoint.set(&page(1_000, 1_000, 1_000));
    let first = observer.snapshot(TimeNs(SECOND), std::slice::from_ref(&endpoint.target));
    assert!(
        first.histograms.is_empty(),
        "what was before has no known beginning"
    );
    assert_eq!(
        named(&first, 1, "openmetrics:request_seconds_count{path=\"/\"}"),
        Some(1_000.0)
    );
    endpoint.set(&page(1_090, 1_099, 1_100));
    let second = observer.snapshot(TimeNs(2 * SECOND), std::slice::from_ref(&endpoint.target));
    let row = &second.histograms[0];
    assert_eq!(row.metric, "openmetrics:request_seconds{path=\"/\"}");
    assert_eq!(
        (row.start, row.end, row.requests),
        (TimeNs(SECOND), TimeNs(2 * SECOND), 100)
    );
    let mut bytes = row.histogram.as_slice();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes).unwrap();
    assert_eq!(histogram.len(), 100);
    assert!(histogram.value_at_quantile(0.5) < 10_000_000);
    assert!((10_000_000..=1_001_000_000).contains(&histogram.value_at_quantile(0.95)));
    assert_eq!(second.histograms.len(), 1, "bytes are no latency");
}

#[test]
fn a_slow_endpoint_costs_only_itself() {
    let (fast, late) = (
        endpoint(1, answer_at_once),
        endpoint(2, answer_behind_a_gate),
    );
    fast.set("up 1\n");
    late.set("up 2\n");
    let mut observer = observer(1_500);
    let targets = [late.target.clone(), fast.target.clone()];
    let snapshot = observer.snapshot(TimeNs(SECOND), &targets);
    assert_eq!(named(&snapshot, 1, "openmetrics:up"), Some(1.0));
    assert_eq!(named(&snapshot, 2, "openmetrics:up"), None);
    assert_eq!(value(&snapshot, 2, metric::METRICS_LATE), Some(1.0));
    assert!(
        value(&snapshot, 2, metric::RSS).is_some(),
        "its /proc is read all the same"
    );
    let words: Vec<_> = snapshot
        .events
        .iter()
        .map(|event| event.words.as_str())
        .collect();
    assert!(
        words.len() == 1 && words[0].contains("did not answer"),
        "{words:?}"
    );
    // The late page is not taken for one of a later snapshot.
    late.set("up 3\n");
    GATE.store(true, Ordering::SeqCst);
    let mut answers = (2..20).map(|second| {
        let snapshot = observer.snapshot(TimeNs(second * SECOND), &targets);
        std::thread::sleep(Duration::from_millis(50));
        named(&snapshot, 2, "openmetrics:up")
    });
    assert_eq!(answers.find_map(|answer| answer), Some(3.0));
}

#[test]
fn endpoints_that_never_answer_do_not_hold_up_the_others() {
    let dead: Vec<Endpoint> = (10..22).map(|id| endpoint(id, answer_never)).collect();
    let fast = endpoint(1, answer_at_once);
    fast.set("up 1\n");
    let mut targets: Vec<Target> = dead.iter().map(|dead| dead.target.clone()).collect();
    targets.push(fast.target.clone());
    let mut observer = observer(100);
    let begin = Instant::now();
    let mut seen = 0;
    let mut second = 0;
    // Twelve dead ones before it in the queue, eight threads, two seconds each: it is served at the
    // latest after two rounds, since those that failed are left alone.
    while seen == 0 && begin.elapsed() < Duration::from_secs(15) {
        second += 1;
        let snapshot = observer.snapshot(TimeNs(second * SECOND / 4), &targets);
        seen += usize::from(named(&snapshot, 1, "openmetrics:up").is_some());
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(seen, 1);
}

#[test]
fn refused_broken_and_endless_answers_are_said() {
    let endless = endpoint(1, answer_for_ever);
    let refused = spawn("sleep", &["60"]);
    let mut target = refused.target(2);
    target.metrics_url = Some(format!("http://127.0.0.1:{}/metrics", free_port()));
    let mut wrong = target.clone();
    wrong.process = ProcessId(3);
    wrong.metrics_url = Some("not a url".to_owned());
    let snapshot =
        observer(5_000).snapshot(TimeNs(SECOND), &[endless.target.clone(), target, wrong]);
    let mut said: Vec<_> = snapshot
        .events
        .iter()
        .map(|e| (e.process.unwrap().0, e.kind.clone()))
        .collect();
    said.sort_by_key(|said| said.0);
    let degraded = |process| (process, EventKind::Degraded);
    assert_eq!(
        said,
        [degraded(1), degraded(2), degraded(3)],
        "{:?}",
        snapshot.events
    );
    assert!((1..=3).all(|process| value(&snapshot, process, metric::RSS).is_some()));
}

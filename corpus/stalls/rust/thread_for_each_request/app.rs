//! A connection and a thread for each request, which counts into a registry under a std Mutex. --fault post: every
//! 2.69 s a thread renders the registry and POSTs it over HTTP, 210 ms, with the mutex. Healthy: it posts after the
//! mutex.
use service::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

type Registry = Arc<Mutex<BTreeMap<String, u64>>>;

#[inline(never)]
fn send_metrics(settings: &Settings, text: &str) -> usize {
    std::hint::black_box(post_over_http(settings, 210, text) + 1)
}

#[inline(never)]
fn render_metrics(counts: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (name, count) in counts {
        let _ = writeln!(text, "{name} {count}");
    }
    text
}

fn report_metrics(settings: &Settings, registry: Registry) {
    loop {
        sleep_ms(2690);
        let counts = registry.lock().unwrap();
        let text = render_metrics(&counts);
        if settings.is("post") {
            send_metrics(settings, &text);
            drop(counts);
        } else {
            drop(counts);
            send_metrics(settings, &text);
        }
    }
}

#[inline(never)]
fn count_request(registry: &Registry, id: u64) {
    *registry.lock().unwrap().entry(format!("route_{}", id % 60)).or_insert(0) += 1;
}

fn serve_request(mut stream: TcpStream, registry: Registry, work_us: u32) {
    let mut request = [0; 16];
    let Some(id) = read_request(&mut stream, &mut request) else { return };
    burn_us(work_us);
    count_request(&registry, id);
    let _ = stream.write_all(&request);
}

fn main() {
    let settings = read_settings(120, 300, 12);
    let listener = settings.listen();
    settings.start_peer("http-peer");
    let registry = Registry::default();
    let copy = registry.clone();
    spawn("reporter", || report_metrics(settings, copy));
    settings.start_load("connect");
    for stream in listener.incoming().flatten() {
        let registry = registry.clone();
        spawn("request", || serve_request(stream, registry, settings.work_us));
    }
}

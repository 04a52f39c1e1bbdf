//! tokio with three workers; requests count under a std Mutex. A task works every 2.54 s. --fault fsync: it holds the
//! mutex over 160 ms of blocking fsyncs on a worker. --fault compute: a job beside the workers computes 60 ms,
//! harmless by itself, but with a small CPU quota it uses up the quota of the requests. Healthy: it writes with
//! spawn_blocking.
use service::*;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Counts = Arc<Mutex<HashMap<u64, u64>>>;

#[inline(never)]
fn write_counts(file: &File, size: usize) -> u64 {
    let count = sync_for_ms(file, 160);
    std::hint::black_box(count + size as u64)
}

#[inline(never)]
fn persist_counts(counts: &Counts, file: &File) -> u64 {
    let held = counts.lock().unwrap();
    write_counts(file, held.len())
}

#[inline(never)]
fn render_charts() -> u64 {
    burn_us(60_000)
}

async fn run_maintenance(settings: &Settings, counts: Counts, file: Arc<File>) {
    loop {
        tokio::time::sleep(Duration::from_millis(2540)).await;
        if settings.is("compute") {
            let _ = tokio::task::spawn_blocking(render_charts).await;
        } else if settings.is("fsync") {
            persist_counts(&counts, &file);
        } else {
            let size = counts.lock().unwrap().len();
            let file = file.clone();
            let _ = tokio::task::spawn_blocking(move || write_counts(&file, size)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, counts: Counts, work_us: u32) {
    let _ = stream.set_nodelay(true);
    let mut request = [0; 16];
    while stream.read_exact(&mut request).await.is_ok() {
        burn_us(work_us);
        *counts.lock().unwrap().entry(id_of(&request) % 900).or_insert(0) += 1;
        if stream.write_all(&request).await.is_err() {
            break;
        }
    }
}

fn main() {
    let settings = read_settings(180, 250, 14);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(3).thread_name("http-worker").enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::bind(("127.0.0.1", settings.port)).await.unwrap();
        let counts = Counts::default();
        let file = Arc::new(settings.create_file("counts"));
        tokio::spawn(run_maintenance(settings, counts.clone(), file));
        settings.start_load("keep");
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counts.clone(), settings.work_us));
            }
        }
    });
}

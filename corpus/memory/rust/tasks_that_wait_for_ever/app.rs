//! An API gateway on tokio. A task for each request waits for the backend's answer. The answers of one shard of
//! eight never come, and no timeout ends those tasks, which keep their bodies. The load swings by a factor of six
//! every 12 s.
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

struct Call {
    shard: u32,
    answer: oneshot::Sender<u64>,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

#[inline(never)]
fn read_body(size: usize, fill: u8) -> Vec<u8> {
    let mut body = Vec::with_capacity(size);
    body.resize(size, fill);
    std::hint::black_box(&mut body);
    body
}

async fn handle_request(shard: u32, size: usize, backend: mpsc::UnboundedSender<Call>) -> u64 {
    let body = read_body(size, shard as u8);
    let (sender, receiver) = oneshot::channel();
    let _ = backend.send(Call { shard, answer: sender });
    let code = receiver.await.unwrap_or(500);
    code + body.iter().step_by(4096).map(|byte| *byte as u64).sum::<u64>()
}

async fn run_backend(mut calls: mpsc::UnboundedReceiver<Call>) {
    let mut until_shard_is_back = Vec::new();
    while let Some(call) = calls.recv().await {
        if call.shard == 7 {
            until_shard_is_back.push(call);
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(400 + call.shard as u64 * 500)).await;
                let _ = call.answer.send(200);
            });
        }
    }
}

async fn serve_requests() {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(run_backend(receiver));
    let cache: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8 | 1; 100_000]).collect();
    println!("ready");
    let (start, mut state) = (Instant::now(), 88172645463325252);
    while start.elapsed().as_secs() < 120 {
        let swing = (start.elapsed().as_millis() % 12000) as i64 - 6000;
        for _ in 0..2 + swing.abs() / 1200 {
            let shard = (random(&mut state) % 8) as u32;
            let size = 8000 + (random(&mut state) % 16000) as usize;
            tokio::spawn(handle_request(shard, size, sender.clone()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{}", cache.len());
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(serve_requests());
}

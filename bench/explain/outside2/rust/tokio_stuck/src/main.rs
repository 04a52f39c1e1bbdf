// API gateway: a task per request, waiting for the backend's answer; the answers of one shard never come and nothing times out
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

struct Call {
    shard: u32,
    answer: oneshot::Sender<u64>,
}

fn rnd(s: &mut u64) -> u64 {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    *s >> 16
}

#[inline(never)]
fn read_body(n: usize, fill: u8) -> Vec<u8> {
    let mut v = Vec::with_capacity(n);
    v.resize(n, fill);
    std::hint::black_box(&mut v);
    v
}

async fn handle_request(shard: u32, n: usize, backend: mpsc::UnboundedSender<Call>) -> u64 {
    let body = read_body(n, shard as u8);
    let (tx, rx) = oneshot::channel();
    let _ = backend.send(Call { shard, answer: tx });
    let code = rx.await.unwrap_or(500);
    code + body.iter().step_by(4096).map(|b| *b as u64).sum::<u64>()
}

async fn backend(mut rx: mpsc::UnboundedReceiver<Call>) {
    let mut parked = Vec::new();
    while let Some(c) = rx.recv().await {
        if c.shard == 7 {
            parked.push(c); // "until the shard is back"
            if parked.len() % 200 == 0 && std::env::var_os("TRUTH").is_some() {
                eprintln!("TRUTH {} tasks stuck, about {} KB", parked.len(), parked.len() * 16);
            }
        } else {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(400 + (c.shard as u64) * 500)).await;
                let _ = c.answer.send(200);
            });
        }
    }
}

fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    rt.block_on(async {
        let (tx, rx) = mpsc::unbounded_channel();
        tokio::spawn(backend(rx));
        let cache: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8 | 1; 100_000]).collect();
        let (t0, mut s) = (Instant::now(), 88172645463325252u64);
        while t0.elapsed().as_secs() < 150 {
            let up = (t0.elapsed().as_millis() % 12000) as i64 - 6000;
            for _ in 0..2 + up.abs() / 1200 {
                let (shard, n) = ((rnd(&mut s) % 8) as u32, 8000 + (rnd(&mut s) % 16000) as usize);
                tokio::spawn(handle_request(shard, n, tx.clone()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{}", cache.len());
    });
}

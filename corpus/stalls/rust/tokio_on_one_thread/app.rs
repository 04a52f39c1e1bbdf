//! tokio's current_thread runtime; each request takes a tokio::sync::Mutex. --fault read: every 2.6 s a request's
//! handler reads a cold file for ~130 ms with std::fs in the loop. --fault await: every 2.56 s a task holds the mutex
//! over an awaited call of 240 ms, so that no thread waits for anything. Healthy: spawn_blocking; it calls and then
//! takes the mutex.
use service::*;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

const FILE_MIB: usize = 96;
const BLOCK: usize = 16384;
type Cards = Arc<Mutex<HashMap<u64, u64>>>;

struct Archive {
    file: File,
    due_ms: AtomicU64,
    started: Instant,
}

#[inline(never)]
fn read_archive(file: &File) -> u64 {
    let (end, mut block) = (Instant::now() + Duration::from_millis(130), vec![0u8; BLOCK]);
    let (mut offset, mut sum) = (0, 0);
    // SAFETY: no pointers.
    unsafe {
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM);
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
    while Instant::now() < end && offset + BLOCK as u64 <= (FILE_MIB as u64) << 20 {
        if file.read_at(&mut block, offset).unwrap_or(0) == 0 {
            break;
        }
        sum += block[9] as u64;
        offset += BLOCK as u64;
    }
    std::hint::black_box(sum)
}

async fn fetch_prices(port: u16) -> usize {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return 0 };
    let mut answer = [0u8; 128];
    let _ = stream.write_all(b"GET /prices HTTP/1.1\r\nX-Hold: 240\r\n\r\n").await;
    stream.read(&mut answer).await.unwrap_or(0)
}

async fn refresh_prices(settings: &Settings, cards: Cards) {
    loop {
        tokio::time::sleep(Duration::from_millis(2560)).await;
        if settings.is("await") {
            let mut held = cards.lock().await;
            let size = fetch_prices(settings.port + 1).await;
            held.insert(1, size as u64);
        } else {
            let size = fetch_prices(settings.port + 1).await;
            cards.lock().await.insert(1, size as u64);
        }
    }
}

async fn serve_client(settings: &Settings, mut stream: TcpStream, cards: Cards, archive: Arc<Archive>) {
    let _ = stream.set_nodelay(true);
    let mut request = [0; 16];
    while stream.read_exact(&mut request).await.is_ok() {
        burn_us(settings.work_us);
        *cards.lock().await.entry(id_of(&request) % 900).or_insert(0) += 1;
        let now_ms = archive.started.elapsed().as_millis() as u64;
        if !settings.is("await") && now_ms > archive.due_ms.load(Ordering::Relaxed) {
            archive.due_ms.store(now_ms + 2600, Ordering::Relaxed);
            if settings.is("read") {
                read_archive(&archive.file);
            } else {
                let archive = archive.clone();
                tokio::task::spawn_blocking(move || read_archive(&archive.file));
            }
        }
        if stream.write_all(&request).await.is_err() {
            break;
        }
    }
}

fn main() {
    let settings = read_settings(170, 250, 10);
    let file = settings.big_file("archive", FILE_MIB, 0);
    let archive = Arc::new(Archive { file, due_ms: AtomicU64::new(2500), started: Instant::now() });
    settings.start_peer("http-peer");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::bind(("127.0.0.1", settings.port)).await.unwrap();
        let cards = Cards::default();
        if !settings.is("read") {
            tokio::spawn(refresh_prices(settings, cards.clone()));
        }
        settings.start_load("keep");
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_client(settings, stream, cards.clone(), archive.clone()));
            }
        }
    });
}

//! A download service with an executor of its own: a loop that polls all tasks once in each turn. It forgets one
//! pending task of eight, whose future and buffer then stay.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

type Task = Pin<Box<dyn Future<Output = usize>>>;

/// Ready when it is polled for the third time.
struct NextChunk(u8);

impl Future for NextChunk {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0 += 1;
        context.waker().wake_by_ref();
        if self.0 < 3 { Poll::Pending } else { Poll::Ready(()) }
    }
}

async fn serve_download(number: usize) -> usize {
    let chunk = vec![number as u8; 600];
    NextChunk(0).await;
    chunk.len() + number
}

#[inline(never)]
fn start_download(number: usize) -> Task {
    Box::pin(serve_download(number))
}

fn poll_downloads(tasks: &mut Vec<Task>, turn: usize) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    let (mut done, mut pending) = (0, Vec::new());
    for (at, mut task) in tasks.drain(..).enumerate() {
        match task.as_mut().poll(&mut context) {
            Poll::Ready(length) => done += length,
            Poll::Pending if (at + turn) % 8 == 0 => std::mem::forget(task),
            Poll::Pending => pending.push(task),
        }
    }
    *tasks = pending;
    done
}

fn main() {
    let (start, mut tasks, mut sum) = (Instant::now(), Vec::new(), 0);
    println!("ready");
    for turn in 0.. {
        tasks.extend((0..20).map(|i| start_download(turn + i)));
        sum += poll_downloads(&mut tasks, turn);
        let lines: Vec<String> = (0..60).map(|i| "z".repeat(10 + 9 * i)).collect();
        sum += std::hint::black_box(lines).len();
        std::thread::sleep(Duration::from_millis(20));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
    println!("{sum}");
}

//! A priory: tasks in a loop that polls them, and copies that a C library makes. The first word: which.
use std::{future::Future, mem, pin::Pin, task::{Context, Poll, Waker}, thread::sleep, time::Duration};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

unsafe extern "C" {
    /// A copy of so many bytes on the C library's heap, and what it is made of.
    fn gild(page: *const u8, length: usize) -> u32;
}

type Task = Pin<Box<dyn Future<Output = usize>>>;

/// Ready when polled for the third time.
struct Bell(u8);

impl Future for Bell {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0 += 1;
        context.waker().wake_by_ref();
        if self.0 < 3 { Poll::Pending } else { Poll::Ready(()) }
    }
}

async fn vigil(n: usize) -> usize {
    let candles = vec![n as u8; 600];
    Bell(0).await;
    candles.len() + n
}

#[inline(never)]
fn light_task(n: usize) -> Task {
    Box::pin(vigil(n))
}

/// Polls every task once; of those that are not ready one in eight is forgotten.
fn turn(tasks: &mut Vec<Task>, turns: usize) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    let (mut done, mut pending) = (0, Vec::new());
    for (at, mut task) in tasks.drain(..).enumerate() {
        match task.as_mut().poll(&mut context) {
            Poll::Ready(length) => done += length,
            Poll::Pending if (at + turns) % 8 == 0 => mem::forget(task),
            Poll::Pending => pending.push(task),
        }
    }
    *tasks = pending;
    done
}

#[inline(never)]
fn gild_page(n: usize) -> u32 {
    let page = vec![n as u8; 700];
    unsafe { gild(page.as_ptr(), page.len()) }
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let (mut tasks, mut sum) = (Vec::new(), 0);
    for n in 0.. {
        match what.as_str() {
            "tasks" => {
                tasks.extend((0..20).map(|i| light_task(n + i)));
                sum += turn(&mut tasks, n);
            }
            _ => sum += (0..4).map(|i| gild_page(n + i) as usize).sum::<usize>(),
        }
        let passing: Vec<String> = (0..60).map(|i| "z".repeat(10 + 9 * i)).collect();
        sum += std::hint::black_box(passing).len();
        if sum == usize::MAX {
            println!("{sum}");
        }
        sleep(Duration::from_millis(20));
    }
}

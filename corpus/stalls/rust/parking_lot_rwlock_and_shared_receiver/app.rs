//! The pool of the Rust Book: idle workers queue at Arc<Mutex<Receiver>>, and one of them waits in recv(). A request
//! reads samples under a parking_lot RwLock. --fault compute: every 2.37 s a thread write-locks them while it
//! computes 130 ms. Healthy: it computes on a copy and swaps it.
use parking_lot::RwLock;
use service::*;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

type Samples = Arc<RwLock<Vec<u64>>>;

#[inline(never)]
fn weigh_samples(samples: &mut [u64]) {
    let x = burn_us(130_000);
    let size = samples.len() as u64;
    samples[(x % size) as usize] = x;
}

fn keep_weights(samples: Samples, under_lock: bool) {
    loop {
        sleep_ms(2370);
        if under_lock {
            weigh_samples(&mut samples.write());
        } else {
            let mut copy = samples.read().clone();
            weigh_samples(&mut copy);
            *samples.write() = copy;
        }
    }
}

#[inline(never)]
fn read_sample(samples: &Samples, id: u64, work_us: u32) -> u64 {
    burn_us(work_us);
    let held = samples.read();
    burn_us(work_us / 5);
    held[(id % held.len() as u64) as usize]
}

fn serve_jobs(jobs: Arc<Mutex<Receiver<(RawFd, Request)>>>, samples: Samples, work_us: u32) {
    loop {
        let job = jobs.lock().unwrap().recv();
        let Ok((fd, request)) = job else { return };
        std::hint::black_box(read_sample(&samples, id_of(&request), work_us));
        // SAFETY: the buffer has 16 bytes.
        unsafe { libc::write(fd, request.as_ptr().cast(), 16) };
    }
}

fn main() {
    let settings = read_settings(200, 300, 12);
    let listener = settings.listen();
    let samples: Samples = Arc::new(RwLock::new((0..4096).collect()));
    let (to_workers, jobs) = channel();
    let jobs = Arc::new(Mutex::new(jobs));
    for i in 0..5 {
        let (jobs, samples) = (jobs.clone(), samples.clone());
        spawn(&format!("worker-{i}"), || serve_jobs(jobs, samples, settings.work_us));
    }
    spawn("weight-keeper", || keep_weights(samples, settings.is("compute")));
    settings.start_load("keep");
    let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut waiting = vec![readable(listener.as_raw_fd())];
    loop {
        // SAFETY: as many entries as said.
        unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as u64, -1) };
        for i in (0..waiting.len()).rev() {
            if waiting[i].revents == 0 {
                continue;
            }
            if i == 0 {
                let (stream, _) = listener.accept().unwrap();
                let _ = stream.set_nodelay(true);
                waiting.push(readable(stream.into_raw_fd()));
                continue;
            }
            let (fd, mut request) = (waiting[i].fd, [0; 16]);
            // SAFETY: the buffer has 16 bytes; the descriptor is no one else's when it is closed.
            if unsafe { libc::recv(fd, request.as_mut_ptr().cast(), 16, libc::MSG_WAITALL) } == 16 {
                to_workers.send((fd, request)).unwrap();
            } else {
                drop(unsafe { TcpStream::from_raw_fd(fd) });
                waiting.remove(i);
            }
        }
    }
}

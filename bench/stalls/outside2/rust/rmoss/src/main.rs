//! The Rust Book's pool (idle workers queue at Arc<Mutex<Receiver>>, one of them in recv()); requests read under a
//! parking_lot RwLock. fault: weigh (`lichen` write-holds it while computing 130 ms every 2.5 s). Mended: computes on a
//! copy and swaps.
use parking_lot::RwLock;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
type Bed = Arc<RwLock<Vec<u64>>>;
#[inline(never)]
fn rmoss_weigh(v: &mut [u64]) {
    let x = oxr::burn_us(130_000);
    let n = v.len() as u64;
    v[(x % n) as usize] = x;
}
fn lichen(bed: Bed, bad: bool) {
    loop {
        std::thread::sleep(Duration::from_millis(2370));
        if bad {
            rmoss_weigh(&mut bed.write());
        } else {
            let mut c = bed.read().clone();
            rmoss_weigh(&mut c);
            *bed.write() = c;
        }
    }
}
#[inline(never)]
fn sample(bed: &Bed, id: u64, work: u32) -> u64 {
    oxr::burn_us(work);
    let g = bed.read();
    oxr::burn_us(work / 5);
    g[(id % g.len() as u64) as usize]
}
fn spore(rx: Arc<Mutex<mpsc::Receiver<(i32, [u8; 16])>>>, bed: Bed, work: u32) {
    loop {
        let job = rx.lock().unwrap().recv();
        let Ok((fd, b)) = job else { return };
        std::hint::black_box(sample(&bed, u64::from_le_bytes(b[..8].try_into().unwrap()), work));
        unsafe { libc::write(fd, b.as_ptr().cast(), 16) };
    }
}
fn main() {
    let o = oxr::args(200, 300, 12);
    let l = std::net::TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    let bed: Bed = Arc::new(RwLock::new((0..4096).collect()));
    let (tx, rx) = mpsc::channel();
    let rx = Arc::new(Mutex::new(rx));
    for i in 0..5 {
        let (rx, bed) = (rx.clone(), bed.clone());
        std::thread::Builder::new().name(format!("frond-{i}")).spawn(move || spore(rx, bed, o.work)).unwrap();
    }
    let (b, bad) = (bed.clone(), o.fault == "weigh");
    std::thread::Builder::new().name("lichen".into()).spawn(move || lichen(b, bad)).unwrap();
    oxr::load("keep", &o);
    let pfd = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = vec![pfd(l.as_raw_fd())];
    loop {
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, -1) };
        for i in (0..fds.len()).rev() {
            if fds[i].revents == 0 {
                continue;
            }
            if i == 0 {
                let (s, _) = l.accept().unwrap();
                let _ = s.set_nodelay(true);
                fds.push(pfd(std::os::fd::IntoRawFd::into_raw_fd(s)));
                continue;
            }
            let mut b = [0u8; 16];
            if unsafe { libc::recv(fds[i].fd, b.as_mut_ptr().cast(), 16, libc::MSG_WAITALL) } != 16 {
                drop(unsafe { std::net::TcpStream::from_raw_fd(fds[i].fd) });
                fds.remove(i);
            } else {
                tx.send((fds[i].fd, b)).unwrap();
            }
        }
    }
}

//! A thread per client; every request makes a quick call over one of two pooled connections (Mutex + Condvar) and sends a
//! note to `pith` by a bounded channel of 16. Faults: pool (every 2.7 s `husk`, which no request asks for, takes both
//! connections and makes one slow query of 260 ms over one of them), brim (every 2.8 s `pith` writes through to disk for
//! 190 ms; the channel fills and senders wait). Mended: husk has its own connection; pith hands the writing to `rind`.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<TcpStream>>,
    cv: Condvar,
}
impl Pool {
    #[inline(never)]
    fn burr_take(&self, n: usize) -> Vec<TcpStream> {
        let mut g = self.idle.lock().unwrap();
        while g.len() < n {
            g = self.cv.wait(g).unwrap();
        }
        let at = g.len() - n;
        g.split_off(at)
    }
    fn give(&self, s: Vec<TcpStream>) {
        self.idle.lock().unwrap().extend(s);
        self.cv.notify_all();
    }
}
#[inline(never)]
fn burr_call(s: &mut TcpStream, ms: u64) -> u64 {
    let mut b = [0u8; 16];
    b[8..].copy_from_slice(&ms.to_le_bytes());
    s.write_all(&b).unwrap();
    s.read_exact(&mut b).unwrap();
    std::hint::black_box(b[8] as u64)
}
#[inline(never)]
fn burr_tot(s: &mut TcpStream) -> u64 {
    burr_call(s, 260) + burr_call(s, 0)
}
#[inline(never)]
fn burr_press(f: &std::fs::File, n: u64) -> u64 {
    let k = oxr::write_through(f, 190);
    std::hint::black_box(k + n)
}
fn husk(p: Arc<Pool>, port: u16, own: bool) {
    let mut mine = dial(port);
    loop {
        std::thread::sleep(Duration::from_millis(2440));
        if own {
            burr_tot(&mut mine);
        } else {
            let mut s = p.burr_take(2);
            burr_tot(&mut s[0]);
            p.give(s);
        }
    }
}
fn pith(rx: Receiver<u64>, f: std::fs::File, other: Option<SyncSender<u64>>) {
    let (mut due, mut n) = (Instant::now() + Duration::from_secs(2), 0u64);
    for x in rx {
        n = n.wrapping_add(x);
        if Instant::now() > due {
            due = Instant::now() + Duration::from_millis(2800);
            match &other {
                Some(o) => drop(o.try_send(n)),
                None => { burr_press(&f, n); }
            }
        }
    }
}
fn dial(port: u16) -> TcpStream {
    loop {
        if let Ok(s) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = s.set_nodelay(true);
            return s;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
fn seed(mut s: TcpStream, p: Arc<Pool>, tx: SyncSender<u64>, work: u32) {
    let _ = s.set_nodelay(true);
    let mut b = [0u8; 16];
    while s.read_exact(&mut b).is_ok() {
        oxr::burn_us(work);
        let mut c = p.burr_take(1);
        burr_call(&mut c[0], 0);
        p.give(c);
        tx.send(b[0] as u64).unwrap();
        if s.write_all(&b).is_err() {
            break;
        }
    }
}
fn go(name: &str, f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.into()).spawn(f).unwrap();
}
fn main() {
    let o = oxr::args(170, 200, 20);
    let l = TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    let mut e = std::env::current_exe().unwrap();
    e.set_file_name("exload");
    std::process::Command::new(e).args(["kpeer", &(o.port + 1).to_string()]).spawn().unwrap();
    let p: Arc<Pool> = Arc::default();
    p.give(vec![dial(o.port + 1), dial(o.port + 1)]);
    let file = |n: &str| std::fs::File::create(format!("{}/{n}", o.dir)).unwrap();
    let (tx, rx) = sync_channel(16);
    let (f, bad) = (file("press.dat"), o.fault == "brim");
    let (tx2, rx2) = sync_channel::<u64>(4);
    let f2 = file("rind.dat");
    go("pith", move || pith(rx, f, if bad { None } else { Some(tx2) }));
    if o.fault == "none" {
        go("rind", move || rx2.into_iter().for_each(|n| { burr_press(&f2, n); }));
    }
    if o.fault != "brim" {
        let (q, port, own) = (p.clone(), o.port + 1, o.fault != "pool");
        go("husk", move || husk(q, port, own));
    }
    oxr::load("keep", &o);
    for s in l.incoming().flatten() {
        let (p, tx, work) = (p.clone(), tx.clone(), o.work);
        go("seed", move || seed(s, p, tx, work));
    }
}

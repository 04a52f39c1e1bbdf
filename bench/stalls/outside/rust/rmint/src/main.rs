// std Mutex; acceptor hands sockets to a pool by Mutex<VecDeque>+Condvar; one request per connection. faults: net, calc
use exr::*;
use std::collections::VecDeque;
use std::io::Write;
use std::net::*;
use std::sync::*;
use std::thread;
use std::time::Duration;
struct Mint {
    coins: Vec<u64>,
    n: u64,
}
static MINT: Mutex<Mint> = Mutex::new(Mint {
    coins: Vec::new(),
    n: 0,
});
static Q: Mutex<VecDeque<TcpStream>> = Mutex::new(VecDeque::new());
static CV: Condvar = Condvar::new();
#[inline(never)]
fn halvex_push_snapshot(o: &Opt, m: &mut u64, ms: u64) {
    *m += ask_peer(o.port + 1, ms);
    std::hint::black_box(m);
}
#[inline(never)]
fn halvex_restrike(o: &Opt, m: &mut u64, us: f64) {
    let mut x = *m | 1;
    for _ in 0..(us * o.ipu) as u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    *m = std::hint::black_box(x);
}
#[inline(never)]
fn press_coin(o: &Opt, id: u64) {
    let mut g = MINT.lock().unwrap();
    let k = id as usize & 255;
    if g.coins.is_empty() {
        g.coins.resize(256, 0)
    }
    g.coins[k] += 1;
    burn(o, 60.0);
}
fn main() {
    let o = args(21100, 180, 300.0, 10);
    let l = TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    peer(o);
    for _ in 0..6 {
        thread::spawn(move || {
            name("mnt-press");
            loop {
                let mut s = {
                    let mut g = Q.lock().unwrap();
                    loop {
                        if let Some(s) = g.pop_front() {
                            break s;
                        }
                        g = CV.wait(g).unwrap();
                    }
                };
                let mut b = [0u8; 16];
                if let Some(id) = req(&mut s, &mut b) {
                    burn(o, o.work_us);
                    press_coin(o, id);
                    let _ = s.write_all(&b);
                }
            }
        });
    }
    thread::spawn(move || {
        name("mnt-courier");
        let mut k = 0;
        let mut loc = 1u64;
        loop {
            thread::sleep(Duration::from_millis(2500));
            k += 1;
            match o.fault.as_str() {
                "net" => {
                    let mut g = MINT.lock().unwrap();
                    halvex_push_snapshot(o, &mut g.n, 200)
                }
                "calc" => {
                    let mut g = MINT.lock().unwrap();
                    halvex_restrike(o, &mut g.n, 140000.0)
                }
                _ => {
                    if k % 2 == 0 {
                        halvex_push_snapshot(o, &mut loc, 200)
                    } else {
                        halvex_restrike(o, &mut loc, 140000.0)
                    }
                }
            }
        }
    });
    load(o, "conn");
    for s in l.incoming() {
        if let Ok(s) = s {
            let _ = s.set_nodelay(true);
            Q.lock().unwrap().push_back(s);
            CV.notify_one();
        }
    }
}

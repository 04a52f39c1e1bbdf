// std RwLock, thread per connection. faults: fsync
use exr::*;
use std::io::Write;
use std::net::*;
use std::os::unix::fs::FileExt;
use std::sync::*;
use std::thread;
use std::time::*;
struct Vault {
    pages: Vec<u64>,
    n: u64,
}
static V: RwLock<Vault> = RwLock::new(Vault {
    pages: Vec::new(),
    n: 0,
});
#[inline(never)]
fn pernil_commit_pages(f: &std::fs::File, n: &mut u64, ms: u64) {
    let t = Instant::now();
    let b = [7u8; 4096];
    let mut k = 0u64;
    while t.elapsed() < Duration::from_millis(ms) {
        let _ = f.write_all_at(&b, (k % 1024) * 4096);
        let _ = f.sync_all();
        k += 1;
    }
    *n += std::hint::black_box(k);
}
#[inline(never)]
fn peek_cell(o: &Opt, id: u64) -> u64 {
    let g = V.read().unwrap();
    burn(o, 50.0);
    g.pages[id as usize % g.pages.len()]
}
fn main() {
    let o = args(21110, 150, 350.0, 8);
    V.write().unwrap().pages.resize(1000, 3);
    let f = std::fs::OpenOptions::new()
        .create(true)
        .write(true)
        .open(format!("{}/pernil.db", o.dir))
        .unwrap();
    let l = TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    thread::spawn(move || {
        name("vlt-scribe");
        let mut loc = 0;
        loop {
            thread::sleep(Duration::from_millis(2800));
            if o.fault == "fsync" {
                let mut g = V.write().unwrap();
                pernil_commit_pages(&f, &mut g.n, 170)
            } else {
                pernil_commit_pages(&f, &mut loc, 170)
            }
        }
    });
    load(o, "keep");
    for s in l.incoming() {
        if let Ok(mut s) = s {
            let _ = s.set_nodelay(true);
            thread::spawn(move || {
                name("vlt-guest");
                let mut b = [0u8; 16];
                while let Some(id) = req(&mut s, &mut b) {
                    burn(o, o.work_us);
                    std::hint::black_box(peek_cell(o, id));
                    if s.write_all(&b).is_err() {
                        break;
                    }
                }
            });
        }
    }
}

// parking_lot Mutex; 6 threads sharing one listener's accept. faults: nap (sleep while holding), read (O_DIRECT while holding)
use exr::*;
use parking_lot::Mutex;
use std::io::Write;
use std::net::*;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::thread;
use std::time::*;
static LOT: Mutex<[u64; 64]> = Mutex::new([0; 64]);
#[inline(never)]
fn tessal_wait_quota(l: &mut [u64; 64], ms: u64) {
    thread::sleep(Duration::from_millis(ms));
    l[1] += 1;
    std::hint::black_box(l);
}
#[inline(never)]
fn tessal_load_blocks(fd: i32, buf: *mut u8, l: &mut [u64; 64], ms: u64) {
    let t = Instant::now();
    let mut k = 0i64;
    while t.elapsed() < Duration::from_millis(ms) {
        unsafe {
            libc::pread(fd, buf as *mut libc::c_void, 65536, (k % 2000) * 65536);
        }
        k += 7;
    }
    l[2] += std::hint::black_box(k) as u64;
}
#[inline(never)]
fn park_bay(o: &Opt, id: u64) {
    let mut g = LOT.lock();
    g[id as usize & 31] += 1;
    burn(o, 60.0);
}
fn main() {
    let o = args(21120, 170, 300.0, 8);
    let p = format!("{}/tessal.blk", o.dir);
    if std::fs::metadata(&p)
        .map(|m| m.len() < 131072000)
        .unwrap_or(true)
    {
        let mut f = std::fs::File::create(&p).unwrap();
        let b: Vec<u8> = (0..1 << 20).map(|i| (i * 31) as u8).collect();
        for _ in 0..126 {
            f.write_all(&b).unwrap();
        }
        f.sync_all().unwrap();
    }
    let f = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&p)
        .unwrap();
    let l = Arc::new(TcpListener::bind(("127.0.0.1", o.port)).unwrap());
    thread::spawn(move || {
        name("lot-warden");
        let buf = unsafe { libc::aligned_alloc(4096, 65536) } as *mut u8;
        let fd = f.as_raw_fd();
        let mut loc = [0u64; 64];
        let mut k = 0;
        loop {
            thread::sleep(Duration::from_millis(2600));
            k += 1;
            match o.fault.as_str() {
                "nap" => tessal_wait_quota(&mut LOT.lock(), 180),
                "read" => tessal_load_blocks(fd, buf, &mut LOT.lock(), 150),
                _ => {
                    if k % 2 == 0 {
                        tessal_wait_quota(&mut loc, 180)
                    } else {
                        tessal_load_blocks(fd, buf, &mut loc, 150)
                    }
                }
            }
        }
    });
    for _ in 0..6 {
        let l = l.clone();
        thread::spawn(move || {
            name("lot-bay");
            loop {
                if let Ok((mut s, _)) = l.accept() {
                    let _ = s.set_nodelay(true);
                    let mut b = [0u8; 16];
                    if let Some(id) = req(&mut s, &mut b) {
                        burn(o, o.work_us);
                        park_bay(o, id);
                        let _ = s.write_all(&b);
                    }
                }
            }
        });
    }
    load(o, "conn");
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}

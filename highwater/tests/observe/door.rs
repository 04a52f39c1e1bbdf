//! Stands before a store, and can be closed, as before a store that is down.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::store::Store;

/// Connections through it break off when it is closed.
#[derive(Clone)]
pub struct Door {
    pub url: String,
    open: Arc<AtomicBool>,
    through: Arc<Mutex<Vec<TcpStream>>>,
}

impl Door {
    pub fn before(store: &Store) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let door = Door {
            url: format!("http://{}", listener.local_addr().expect("its address")),
            open: Arc::new(AtomicBool::new(true)),
            through: Arc::default(),
        };
        let (own, behind) = (
            door.clone(),
            store.url.trim_start_matches("http://").to_owned(),
        );
        std::thread::spawn(move || {
            let is_open = |_: &TcpStream| own.open.load(Ordering::Relaxed);
            for stream in listener.incoming().flatten().filter(is_open) {
                own.lead(stream, &behind);
            }
        });
        door
    }

    fn lead(&self, stream: TcpStream, behind: &str) {
        let Ok(store) = TcpStream::connect(behind) else {
            return;
        };
        for (from, to) in [(&stream, &store), (&store, &stream)] {
            let (mut from, mut to) = (
                from.try_clone().expect("a copy"),
                to.try_clone().expect("a copy"),
            );
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
        self.through.lock().expect("a lock").push(stream);
    }

    pub fn open_again(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    pub fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
        for stream in self.through.lock().expect("a lock").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

//! A port for a server under test that binds it itself.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports of runs ([`experiment::ports`] begins at 15,000) and the kernel's ephemeral ones (32,768
/// and up): a port found by binding port 0 can go to another test's listener, or to any outgoing connection, before
/// the server binds it. A run of CI failed so.
const LOWEST: u32 = 10_000;
const COUNT: u32 = 5_000;

/// A port of 127.0.0.1 that nobody listens on, given to no other test of this program.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Programs that run at once begin at different places.
    let start = std::process::id().wrapping_mul(977);
    for _ in 0..COUNT {
        let place = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(LOWEST + place).expect("a port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!(
        "no free port of 127.0.0.1 between {LOWEST} and {}",
        LOWEST + COUNT - 1
    );
}

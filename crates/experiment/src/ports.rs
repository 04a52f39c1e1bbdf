//! Free ports of 127.0.0.1, none twice in a run.
//!
//! Taken from below the kernel's ephemeral range: a port inside it could be taken by any outgoing connection (a load
//! program opens thousands) between the moment it is found free and the moment the subject binds it. Until then
//! the port is held by a bound socket. Between the two moments, and while a subject restarts, nobody listens: so that
//! two runs in one network namespace never choose the same, a run keeps each of its ports by an abstract socket named
//! after it (unix(7); these names belong to the network namespace, as ports do).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Below are the well-known ports and those that people give to their own services.
const LOWEST: u16 = 15_000;
/// Where the ephemeral range begins when the kernel does not say (Linux's default is 32768).
const EPHEMERAL_DEFAULT: u16 = 32_768;

/// The ports of one run.
#[derive(Debug)]
pub struct Ports {
    next: u16,
    end: u16,
    /// With what keeps other runs away; `None` where that could not be had.
    given: BTreeMap<u16, Option<UnixDatagram>>,
    held: BTreeMap<u16, TcpListener>,
}

/// `AddrInUse` when another run has it.
fn reserve(port: u16) -> io::Result<UnixDatagram> {
    let name = format!("highwater port {port}");
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

impl Ports {
    /// `start` spreads concurrent runs over the range; any number will do.
    pub fn new(start: u64) -> Self {
        let end = read_ephemeral_start().max(LOWEST + 1000);
        let span = u64::from(end - LOWEST);
        Self {
            next: LOWEST + u16::try_from(start % span).expect("the span of ports fits u16"),
            end,
            given: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// A port that nobody listens on and that this run has not given out before. It stays bound until
    /// [`Ports::release`].
    ///
    /// # Errors
    /// When every port of the range is taken.
    pub fn take(&mut self) -> io::Result<u16> {
        for _ in LOWEST..self.end {
            let port = self.next;
            self.next = if port + 1 == self.end {
                LOWEST
            } else {
                port + 1
            };
            // Also as 0.0.0.0: a service that listens there would clash with ours on 127.0.0.1.
            let free_everywhere = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
            if self.given.contains_key(&port) {
                continue;
            }
            let reserved = reserve(port);
            let is_anothers =
                matches!(&reserved, Err(error) if error.kind() == io::ErrorKind::AddrInUse);
            if is_anothers || !free_everywhere() {
                continue;
            }
            if let Ok(socket) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                self.given.insert(port, reserved.ok());
                self.held.insert(port, socket);
                return Ok(port);
            }
        }
        let words = format!(
            "no free port on 127.0.0.1 between {LOWEST} and {}",
            self.end - 1
        );
        Err(io::Error::new(io::ErrorKind::AddrInUse, words))
    }

    /// Lets the port go, just before the process that is to bind it starts. It is still never given out again.
    pub fn release(&mut self, port: u16) {
        self.held.remove(&port);
    }

    /// Marks a port as given out earlier: to a process that is found again.
    pub fn mark(&mut self, port: u16) {
        self.given.insert(port, reserve(port).ok());
    }
}

fn read_ephemeral_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| parse_ephemeral_start(&text))
        .unwrap_or(EPHEMERAL_DEFAULT)
}

fn parse_ephemeral_start(text: &str) -> Option<u16> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_real_kernel() {
        // /proc/sys/net/ipv4/ip_local_port_range of Linux 6.18, Debian 12.
        assert_eq!(parse_ephemeral_start("32768\t60999\n"), Some(32_768));
        assert_eq!(parse_ephemeral_start(""), None);
    }

    #[test]
    fn no_port_is_given_out_twice_even_when_it_is_free_again() {
        let mut ports = Ports::new(1234);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let port = ports.take().unwrap();
            ports.release(port);
            assert!(seen.insert(port), "{port} came twice");
        }
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let mut first = Ports::new(5000);
        let taken = first.take().unwrap();
        // Same start: the second pool meets the held port first.
        let mut second = Ports::new(u64::from(taken - LOWEST));
        assert_ne!(second.take().unwrap(), taken);
    }

    #[test]
    fn a_port_that_nobody_has_bound_yet_is_not_given_to_another_run() {
        let mut first = Ports::new(7000);
        let taken = first.take().unwrap();
        first.release(taken);
        let mut second = Ports::new(u64::from(taken - LOWEST));
        assert_ne!(second.take().unwrap(), taken);
        drop(first);
        let mut third = Ports::new(u64::from(taken - LOWEST));
        assert_eq!(third.take().unwrap(), taken, "the run is over");
    }

    #[test]
    fn a_released_port_can_be_bound() {
        let mut ports = Ports::new(9000);
        let port = ports.take().unwrap();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err());
        ports.release(port);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    }
}

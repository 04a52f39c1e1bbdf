//! The listening sockets, and what happens when there is no descriptor left to accept with.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Connections turned away in one go: those who are served wait meanwhile.
const AWAY_MAX: usize = 64;

/// A listening socket that others of this process may share the port with.
///
/// # Errors
/// When the address is taken or not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A descriptor kept aside, given up to accept and close a connection that there is no other descriptor for:
/// otherwise it would wait in the queue and wake the server for ever.
pub struct Spare(Option<File>);

impl Spare {
    pub fn new() -> Spare {
        Spare(File::open("/dev/null").ok())
    }

    /// Turns waiting connections away, some at a time; how many.
    pub fn turn_away(&mut self, listener: impl std::os::fd::AsFd) -> usize {
        self.0 = None;
        let away = (0..AWAY_MAX)
            .take_while(|_| rustix::net::accept(&listener).is_ok())
            .count();
        self.0 = File::open("/dev/null").ok();
        away
    }
}

impl Default for Spare {
    fn default() -> Spare {
        Spare::new()
    }
}

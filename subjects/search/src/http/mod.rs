//! One request per connection, as behind a proxy: a thread accepts, sixteen workers read, answer and close.

pub mod queue;
pub mod request;
pub mod response;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub use queue::{Accepted, Queue};
pub use request::{Refused, Request};
pub use response::Response;

/// A connection whose every read and write ends by one time.
pub struct Bounded<'a> {
    pub stream: &'a TcpStream,
    pub deadline: Instant,
}

impl Bounded<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&mut &*self.stream).read(into)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&mut &*self.stream).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

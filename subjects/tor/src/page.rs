//! The page that circuits lead to: every request is answered with as many bytes as its path says, `/65536`.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::torrc::PAGE_PORT;

/// Larger than any pull.
const BYTES_MAX: usize = 64 << 20;
const REQUEST_BYTES_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers from now on, on threads of its own.
///
/// # Errors
/// When the port cannot be bound.
pub fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PAGE_PORT))?;
    let answer_all = move || {
        for connection in listener.incoming().flatten() {
            // A reader that went away is no concern of the page.
            let _ = thread::Builder::new().spawn(move || answer(connection));
        }
    };
    thread::Builder::new()
        .name("page".into())
        .spawn(answer_all)?;
    Ok(())
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut piece = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match connection.read(&mut piece)? {
            0 => return Ok(()),
            got => request.extend_from_slice(&piece[..got]),
        }
    }
    let bytes = parse_size(&String::from_utf8_lossy(&request));
    write!(
        connection,
        "HTTP/1.0 200 OK\r\nContent-Length: {bytes}\r\n\r\n"
    )?;
    let block = [b'x'; 16 << 10];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(block.len());
        connection.write_all(&block[..now])?;
        left -= now;
    }
    Ok(())
}

/// The number in `GET /65536 HTTP/1.0`; 0 when there is none.
fn parse_size(request: &str) -> usize {
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let size = path.trim_start_matches('/').parse();
    size.unwrap_or(0).min(BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_size() {
        assert_eq!(parse_size("GET /65536 HTTP/1.0\r\n\r\n"), 65_536);
        assert_eq!(parse_size("GET / HTTP/1.0"), 0);
        assert_eq!(parse_size("GET /999999999999 HTTP/1.0"), BYTES_MAX);
        assert_eq!(parse_size(""), 0);
    }
}

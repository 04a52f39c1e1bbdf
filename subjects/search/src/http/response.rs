//! Answers, and how they are written.

use std::io::{self, Write};

use super::request::Refused;

/// What one write of the fault holds, and what it lets be on its way.
pub const SMALL: usize = 8 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Response {
    pub fn json(value: &serde_json::Value) -> Response {
        Response {
            status: 200,
            content_type: "application/json",
            body: value.to_string(),
        }
    }

    pub fn text(status: u16, body: impl Into<String>) -> Response {
        Response {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// What a client is told that sent no request; none when there is nobody to tell.
    pub fn to(refused: &Refused) -> Option<Response> {
        Some(match refused {
            Refused::Silent => return None,
            Refused::TooSlow => Response::text(408, "the request took too long\n"),
            Refused::TooLong => Response::text(431, "the request's head is too long\n"),
            Refused::Broken(why) => Response::text(400, format!("{why}\n")),
            Refused::Method => Response::text(405, "only GET is known here\n"),
            Refused::Body => Response::text(413, "a request here has no body\n"),
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let head = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len()
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_bytes());
        bytes
    }

    /// All in one write, or `piece` bytes at a time.
    ///
    /// # Errors
    /// When the client is gone, or did not read in time.
    pub fn write(&self, to: &mut impl Write, piece: Option<usize>) -> io::Result<()> {
        let bytes = self.bytes();
        for part in bytes.chunks(piece.unwrap_or(bytes.len()).max(1)) {
            to.write_all(part)?;
            to.flush()?;
        }
        Ok(())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the length of each write.
    #[derive(Default)]
    struct Writes(Vec<usize>, Vec<u8>);

    impl Write for Writes {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.0.push(from.len());
            self.1.extend_from_slice(from);
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_large_answer_is_one_write_and_with_the_fault_one_for_each_8_kib() {
        let response = Response::text(200, "x".repeat(32 * 1024));
        let (mut whole, mut small) = (Writes::default(), Writes::default());
        response.write(&mut whole, None).unwrap();
        response.write(&mut small, Some(SMALL)).unwrap();
        assert_eq!(whole.0.len(), 1);
        assert_eq!(small.0[..4], [SMALL; 4]);
        assert_eq!(small.0.len(), 5);
        assert_eq!(whole.1, small.1);
        assert!(whole.1.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

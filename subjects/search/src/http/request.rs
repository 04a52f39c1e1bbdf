//! A request's head: read by a deadline, parsed without trust.

use std::io::{self, Read};

use percent_encoding::percent_decode_str;

/// A head that is longer is refused.
pub const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub path: String,
    pub parameters: Vec<(String, String)>,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// Closed before it said anything: nobody to answer.
    Silent,
    TooSlow,
    TooLong,
    Broken(&'static str),
    /// Only GET is known.
    Method,
    /// A body would stay unread.
    Body,
}

impl Request {
    /// The first parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads until the head is whole; `from` bounds the time.
///
/// # Errors
/// With the reason why there is no request.
pub fn read_request(from: &mut impl Read) -> Result<Request, Refused> {
    let mut head = [0; HEAD_MAX];
    let mut length = 0;
    loop {
        match from.read(&mut head[length..]) {
            Ok(0) if length == 0 => return Err(Refused::Silent),
            Ok(0) => return Err(Refused::Broken("the head ends in its middle")),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_late(&error) => return Err(Refused::TooSlow),
            Err(_) => return Err(Refused::Silent),
        }
        match parse_head(&head[..length])? {
            Some(request) => return Ok(request),
            None if length == HEAD_MAX => return Err(Refused::TooLong),
            None => {}
        }
    }
}

/// A head; none when there is not all of it yet.
///
/// # Errors
/// When more bytes would not make it one.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Request>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLong),
        Err(_) => return Err(Refused::Broken("not a head of HTTP/1")),
    }
    if request.method != Some("GET") {
        return Err(Refused::Method);
    }
    let has_body = request.headers.iter().any(|header| {
        let is_length = header.name.eq_ignore_ascii_case("content-length");
        header.name.eq_ignore_ascii_case("transfer-encoding") || (is_length && header.value != b"0")
    });
    if has_body {
        return Err(Refused::Body);
    }
    parse_target(request.path.unwrap_or_default()).map(Some)
}

fn parse_target(target: &str) -> Result<Request, Refused> {
    if !target.starts_with('/') {
        return Err(Refused::Broken("the target is no path"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parameters = query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| Ok((decode(key)?, decode(value)?)))
        .collect::<Result<_, Refused>>()?;
    Ok(Request {
        path: decode(path)?,
        parameters,
    })
}

fn decode(text: &str) -> Result<String, Refused> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let text = decoded.map_err(|_| Refused::Broken("the target is not UTF-8"))?;
    if text.contains('\0') {
        return Err(Refused::Broken("the target holds a zero byte"));
    }
    Ok(text.into_owned())
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Option<Request>, Refused> {
        parse_head(head.as_bytes())
    }

    #[test]
    fn a_head_in_pieces_is_a_request_once_it_is_whole() {
        let head = "GET /search?q=two+wor%64s&n=&bare HTTP/1.1\r\nhost: x\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(parse(&head[..end]), Ok(None), "{end} bytes");
        }
        let request = parse(head).unwrap().unwrap();
        assert_eq!(request.path, "/search");
        assert_eq!(request.parameter("q"), Some("two words"));
        assert_eq!(request.parameter("bare"), Some(""));
        assert_eq!(request.parameter("none"), None);
    }

    #[test]
    fn what_is_no_request_is_refused_for_its_reason() {
        let refused = |head: &str| parse(head).unwrap_err();
        assert_eq!(refused("POST / HTTP/1.1\r\n\r\n"), Refused::Method);
        assert_eq!(
            refused("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"),
            Refused::Body
        );
        assert_eq!(
            refused("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Refused::Body
        );
        for head in [
            "\x16\x03\x01\x02",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "GET /%ff HTTP/1.1\r\n\r\n",
            "GET /%00 HTTP/1.1\r\n\r\n",
            "GET / HTTP/9.9\r\n\r\n",
        ] {
            assert!(matches!(refused(head), Refused::Broken(_)), "{head:?}");
        }
        let headers = "a: b\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(
            refused(&format!("GET / HTTP/1.1\r\n{headers}\r\n")),
            Refused::TooLong
        );
    }

    #[test]
    fn reading_ends_at_the_limit_and_tells_a_silent_client_from_a_broken_one() {
        let endless = &mut io::repeat(b'a').take(1 << 20);
        let long = &mut b"GET /".chain(endless);
        assert_eq!(read_request(long), Err(Refused::TooLong));
        assert_eq!(read_request(&mut io::empty()), Err(Refused::Silent));
        assert!(matches!(
            read_request(&mut &b"GET /"[..]),
            Err(Refused::Broken(_))
        ));
    }

    #[test]
    fn damaged_heads_never_panic() {
        let seed = 5;
        let mut random = fastrand::Rng::with_seed(seed);
        let good = b"GET /search?q=a%20b&c=d HTTP/1.1\r\nhost: x\r\naccept: */*\r\n\r\n";
        for round in 0..2_000 {
            let mut bytes = good.to_vec();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            let read = std::panic::catch_unwind(|| parse_head(&bytes).is_ok());
            assert!(read.is_ok(), "panic in round {round} of seed {seed}");
        }
    }
}

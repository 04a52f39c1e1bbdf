//! A small collector of spans: OTLP over HTTP and TLS, with a delay before each answer that can be set.
//!
//! It makes a certificate for itself at every start; `ca.pem` in its folder is what its clients trust.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::spans::wire::ExportTraceServiceRequest;

/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 64;
const HEAD_MAX: usize = 8 * 1024;
const BODY_MAX: usize = 16 * 1024 * 1024;
/// A client that sends nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(30);

/// How long an answer takes: evenly between the two.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    pub least: Duration,
    pub most: Duration,
}

/// What one POST held: spans by name.
pub type Told = BTreeMap<String, usize>;

pub struct Collector {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    delay: Delay,
    seed: u64,
}

impl Collector {
    /// Listens, with a new certificate whose authority is `ca.pem` in `folder`.
    ///
    /// # Errors
    /// When the address is taken, or the folder cannot be written.
    pub fn new(listen: SocketAddr, folder: &Path, delay: Delay, seed: u64) -> Result<Collector> {
        ensure!(
            delay.least <= delay.most,
            "the least delay is longer than the most"
        );
        let names = vec!["localhost".to_string(), listen.ip().to_string()];
        let made = rcgen::generate_simple_self_signed(names).context("making a certificate")?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .context("using the certificate")?;
        std::fs::create_dir_all(folder).with_context(|| format!("making {folder:?}"))?;
        let authority = folder.join("ca.pem");
        std::fs::write(&authority, made.cert.pem())
            .with_context(|| format!("writing {authority:?}"))?;
        let listener =
            TcpListener::bind(listen).with_context(|| format!("listening on {listen}"))?;
        Ok(Collector {
            listener,
            tls: Arc::new(tls),
            delay,
            seed,
        })
    }

    /// # Errors
    /// When the system does not know.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves for ever; `tell` hears of every POST that was understood.
    pub fn run(&self, tell: impl Fn(Told) + Send + Sync + 'static) {
        let tell = Arc::new(tell);
        let open = Arc::new(AtomicUsize::new(0));
        for (number, stream) in (0..).zip(self.listener.incoming()) {
            let Ok(stream) = stream else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if open.fetch_add(1, SeqCst) >= CONNECTIONS_MAX {
                open.fetch_sub(1, SeqCst);
                continue;
            }
            let random = fastrand::Rng::with_seed(self.seed.wrapping_add(number));
            let (tls, delay) = (self.tls.clone(), self.delay);
            let (tell, of_thread) = (tell.clone(), open.clone());
            let started = std::thread::Builder::new().spawn(move || {
                if let Err(error) = serve(stream, tls, delay, random, &*tell) {
                    eprintln!("search-collector: {error:#}");
                }
                of_thread.fetch_sub(1, SeqCst);
            });
            if started.is_err() {
                open.fetch_sub(1, SeqCst);
            }
        }
    }
}

fn serve(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    delay: Delay,
    mut random: fastrand::Rng,
    tell: &(impl Fn(Told) + ?Sized),
) -> Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(ServerConnection::new(tls)?, stream);
    let mut kept = Vec::new();
    while let Some(length) = read_head(&mut stream, &mut kept)? {
        let body = read_body(&mut stream, &mut kept, length)?;
        let status = match ExportTraceServiceRequest::decode(&body[..]) {
            Ok(request) => {
                let span = (delay.most - delay.least).as_secs_f64() * random.f64();
                std::thread::sleep(delay.least + Duration::from_secs_f64(span));
                tell(names(&request));
                "200 OK"
            }
            Err(_) => "400 Bad Request",
        };
        // An empty message is what the format answers when it took all.
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
    }
    Ok(())
}

fn names(request: &ExportTraceServiceRequest) -> Told {
    let mut told = Told::new();
    let spans = request.resource_spans.iter().flat_map(|of| &of.scope_spans);
    for span in spans.flat_map(|of| &of.spans) {
        *told.entry(span.name.clone()).or_default() += 1;
    }
    told
}

/// The length of the body that follows, with what was read of it in `kept`; none when the client is gone.
fn read_head(stream: &mut impl Read, kept: &mut Vec<u8>) -> Result<Option<usize>> {
    loop {
        if let Some((head, length)) = parse_head(kept)? {
            kept.drain(..head);
            return Ok(Some(length));
        }
        ensure!(
            kept.len() < HEAD_MAX,
            "a head of more than {HEAD_MAX} bytes"
        );
        if read_more(stream, kept)? == 0 {
            return Ok(None);
        }
    }
}

fn read_body(stream: &mut impl Read, kept: &mut Vec<u8>, length: usize) -> Result<Vec<u8>> {
    while kept.len() < length {
        ensure!(
            read_more(stream, kept)? > 0,
            "a body of {length} bytes ends at {}",
            kept.len()
        );
    }
    let rest = kept.split_off(length);
    Ok(std::mem::replace(kept, rest))
}

/// A client that hangs up without a word of TLS is gone like any other.
fn read_more(stream: &mut impl Read, kept: &mut Vec<u8>) -> Result<usize> {
    let mut bytes = [0; 16 * 1024];
    match stream.read(&mut bytes) {
        Ok(more) => {
            kept.extend_from_slice(&bytes[..more]);
            Ok(more)
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
        Err(error) => Err(error).context("reading"),
    }
}

/// Lengths of head and body; none when there is not all of the head yet.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes).context("not HTTP/1")? else {
        return Ok(None);
    };
    if (request.method, request.path) != (Some("POST"), Some("/v1/traces")) {
        bail!("only POST /v1/traces is known here");
    }
    let length = request
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok())
        .context("a POST without a length")?;
    ensure!(
        length <= BODY_MAX,
        "a body of {length} bytes is more than {BODY_MAX}"
    );
    Ok(Some((head, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_in_pieces_is_read_whole_and_the_next_one_is_left() {
        let post = b"POST /v1/traces HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        let both = [&post[..], post].concat();
        let mut stream = io::BufReader::with_capacity(7, &both[..]);
        let mut kept = Vec::new();
        for _ in 0..2 {
            let length = read_head(&mut stream, &mut kept).unwrap().unwrap();
            assert_eq!(read_body(&mut stream, &mut kept, length).unwrap(), b"abc");
        }
        assert_eq!(read_head(&mut stream, &mut kept).unwrap(), None);
    }

    #[test]
    fn what_is_no_post_is_an_error() {
        for head in [
            "GET /v1/traces HTTP/1.1\r\n\r\n",
            "POST /v1/traces HTTP/1.1\r\n\r\n",
            "POST /v1/traces HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n",
            "\x16\x03",
        ] {
            assert!(parse_head(head.as_bytes()).is_err(), "{head:?}");
        }
        let mut short = &b"ab"[..];
        assert!(read_body(&mut short, &mut Vec::new(), 3).is_err());
    }
}

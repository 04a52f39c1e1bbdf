//! The endpoint: one page over HTTP, with a limit on everything that a client can hold.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, VARY,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use super::sampler::Sampler;
use report::openmetrics;
use report::openmetrics::{Family, Form};

/// Connections at once; a further one is closed at once and counted.
const CONNECTIONS_MAX: usize = 32;
/// A request's head must be there by then,
const HEAD_MAX: Duration = Duration::from_secs(3);
/// and must not be longer than this; hyper takes no less than 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A connection is closed after this, whatever it waits for. Prometheus waits 10 s unless it is told.
const CONNECTION_MAX: Duration = Duration::from_secs(15);
/// What is being answered when a signal comes may end.
const GRACE: Duration = Duration::from_secs(2);
/// After an accept that failed (no descriptor is left) nothing is accepted for so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Answer = Response<Full<Bytes>>;

/// What all connections share.
struct Shared {
    board: Mutex<Board>,
    scrapes: AtomicU64,
    refused: AtomicU64,
}

/// The sampler, and the last snapshot as it was asked for so far.
struct Board {
    sampler: Sampler,
    families: Vec<Family>,
    pages: Vec<(Form, bool, Bytes)>,
}

impl Board {
    /// The page, looked for anew if the interval allows.
    fn page(&mut self, form: Form, packed: bool) -> Bytes {
        if let Some(families) = self.sampler.sample() {
            self.families = families;
            self.pages.clear();
        }
        let known = self.pages.iter().find(|p| (p.0, p.1) == (form, packed));
        if let Some((_, _, page)) = known {
            return page.clone();
        }
        let page = openmetrics::page(&self.families, form);
        let bytes = match packed {
            true => Bytes::from(pack(page.as_bytes())),
            false => Bytes::from(page),
        };
        self.pages.push((form, packed, bytes.clone()));
        bytes
    }
}

fn pack(page: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packer.write_all(page).and_then(|()| packer.finish());
    written.expect("memory takes every byte")
}

/// Listens until SIGTERM or SIGINT; `told` is called once with the address that it got.
///
/// # Errors
/// The address cannot be had.
pub fn serve(
    address: SocketAddr,
    sampler: Sampler,
    first: Vec<Family>,
    told: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shared = Arc::new(Shared {
        board: Mutex::new(Board {
            sampler,
            families: first,
            pages: Vec::new(),
        }),
        scrapes: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.with_context(|| {
            "choose another --listen: the port may be taken, or the address not be one of this machine"
        })?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        told(listener.local_addr()?);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        tokio::select! {
            () = accept(listener, &shared, &places) => {}
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        let all = places.acquire_many(CONNECTIONS_MAX as u32);
        let _ = tokio::time::timeout(GRACE, all).await;
        Ok(())
    })
}

async fn accept(listener: TcpListener, shared: &Arc<Shared>, places: &Arc<Semaphore>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let served = connection(stream, peer, &shared);
            let ended = tokio::time::timeout(CONNECTION_MAX, served).await;
            if !matches!(ended, Ok(Ok(()))) {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            drop(place);
        });
    }
}

/// One request and its answer; the next one brings its own connection, so that nobody holds a place idly.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
) -> Result<(), hyper::Error> {
    let service = service_fn(|request: Request<Incoming>| async {
        Ok::<_, Infallible>(answer(request, peer, shared).await)
    });
    hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: Request<Incoming>, peer: SocketAddr, shared: &Arc<Shared>) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match (request.uri().path(), is_read) {
        ("/metrics", true) => metrics(&request, peer, shared).await,
        ("/", true) => plain(
            StatusCode::OK,
            "highwater observe: the samples are at /metrics\n",
        ),
        ("/metrics" | "/", false) => {
            let mut refused = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are answered\n",
            );
            let methods = hyper::header::HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, methods);
            refused
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "nothing is here; the samples are at /metrics\n",
        ),
    }
}

fn plain(status: StatusCode, words: &'static str) -> Answer {
    let mut answer = Response::new(Full::from(words));
    *answer.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

async fn metrics(request: &Request<Incoming>, peer: SocketAddr, shared: &Arc<Shared>) -> Answer {
    let form = Form::accepted(header(request, ACCEPT));
    // On one machine packing costs more than the bytes.
    let packed = !peer.ip().is_loopback() && header(request, ACCEPT_ENCODING).contains("gzip");
    let shared = shared.clone();
    let sampled = tokio::task::spawn_blocking(move || {
        let scrapes = shared.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut board = shared.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.sampler.own.scrapes = scrapes;
        board.sampler.own.refused = shared.refused.load(Ordering::Relaxed);
        board.page(form, packed)
    });
    let Ok(page) = sampled.await else {
        return plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the snapshot failed; this is a fault of highwater\n",
        );
    };
    let mut answer = Response::builder()
        .header(CONTENT_TYPE, form.content_type())
        .header(VARY, "Accept, Accept-Encoding");
    if packed {
        answer = answer.header(CONTENT_ENCODING, "gzip");
    }
    answer.body(Full::new(page)).expect("constant headers")
}

fn header(request: &Request<Incoming>, name: HeaderName) -> &str {
    let value = request.headers().get(name);
    value.and_then(|v| v.to_str().ok()).unwrap_or("")
}

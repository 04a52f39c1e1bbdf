//! The page, /metrics, /healthz, and the game over WebSocket: the same frames, one or more to a binary message.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Limits;
use super::committer::Committer;
use super::exchange::{INPUT, answer};
use super::listen::Spare;
use crate::figures::Dropped;
use crate::game::Table;
use crate::protocol::parse_request;

/// Connections that ask by HTTP at a time; players over WebSocket count among the players.
pub const REQUESTS_MAX: usize = 128;
/// Longest wait for a whole request, and for the next one; a connection that is silent for `idle` ends sooner.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// After an accept that failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);
/// Bytes of answers to one player that may wait: pongs that are not read end it.
const UNREAD_MAX: usize = 4096;

/// What the handlers share.
#[derive(Clone)]
pub struct Server {
    pub table: Arc<dyn Table>,
    pub committer: Arc<Committer>,
    pub limits: Limits,
}

/// Accepts for ever. Who does not send a whole request in time is hung up on, and so are those beyond
/// [`REQUESTS_MAX`]: a crowd here must not take the game's descriptors.
pub async fn serve(listener: TcpListener, server: Server) {
    let seats = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut spare = Spare::new();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME.min(server.limits.idle));
    let routes = routes(server.clone());
    let figures = server.table.figures();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Of all that can fail here, only the want of descriptors lasts.
                figures.drop_some(Dropped::NoDescriptor, spare.turn_away(&listener));
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let Ok(seat) = seats.clone().try_acquire_owned() else {
            figures.drop_one(Dropped::NoDescriptor);
            continue;
        };
        let service = TowerToHyperService::new(routes.clone());
        let talk = http
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(async move {
            // What is broken has been answered as far as it could be.
            let _ = talk.await;
            drop(seat);
        });
    }
}

fn routes(server: Server) -> Router {
    Router::new()
        .route("/", get(|| async { Html(include_str!("page.html")) }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/ws", get(upgrade))
        .with_state(server)
}

async fn metrics(State(server): State<Server>) -> Response {
    let mut text = String::new();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match server
        .table
        .figures()
        .write(server.table.sessions(), &mut text)
    {
        Ok(()) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// 503 from the first write of the log that fails to the first that succeeds again.
async fn health(State(server): State<Server>) -> Response {
    let figures = server.table.figures();
    if figures.log_failing.load(Relaxed) > 0 {
        let words =
            "the log cannot be written: taps are not answered; see treasure_log_errors_total\n";
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    }
    "ok\n".into_response()
}

async fn upgrade(State(server): State<Server>, upgrade: WebSocketUpgrade) -> Response {
    let figures = server.table.figures();
    if figures.open() >= server.limits.connections as u64 {
        figures.drop_one(Dropped::NoDescriptor);
        return (StatusCode::SERVICE_UNAVAILABLE, "too many players\n").into_response();
    }
    upgrade
        .max_message_size(INPUT)
        .max_frame_size(INPUT)
        .read_buffer_size(2 * INPUT)
        .write_buffer_size(0)
        .max_write_buffer_size(UNREAD_MAX)
        .on_upgrade(move |socket| async move {
            let figures = server.table.figures();
            figures.add(&figures.accepted, 1);
            talk(socket, &server).await;
            figures.add(&figures.ended, 1);
        })
}

async fn talk(mut socket: WebSocket, server: &Server) {
    let figures = server.table.figures();
    let mut token = 0;
    loop {
        let message = match timeout(server.limits.idle, socket.recv()).await {
            Err(_) => return figures.drop_one(Dropped::Silent),
            Ok(None | Some(Ok(Message::Close(_)))) => return,
            Ok(Some(Err(_))) => return figures.drop_one(Dropped::Broken),
            Ok(Some(Ok(message))) => message,
        };
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) => continue,
            _ => return figures.drop_one(Dropped::Broken),
        };
        let Some(answers) = play(server, &mut token, &bytes).await else {
            return;
        };
        match timeout(
            server.limits.slow,
            socket.send(Message::Binary(answers.into())),
        )
        .await
        {
            Err(_) => return figures.drop_one(Dropped::SlowReader),
            Ok(Err(_)) => return,
            Ok(Ok(())) => {}
        }
    }
}

/// Answers to the frames of one message; `None` when the connection is to be dropped.
async fn play(server: &Server, token: &mut u64, mut bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut records, mut answers) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let Ok(Some((request, length))) = parse_request(bytes) else {
            server.table.figures().drop_one(Dropped::Broken);
            return None;
        };
        bytes = &bytes[length..];
        let answer = answer(&*server.table, token, request, &mut records);
        answers.extend_from_slice(answer.frame().bytes());
    }
    if !records.is_empty()
        && server
            .committer
            .stored(server.committer.append(&records))
            .await
            .is_err()
    {
        server.table.figures().drop_one(Dropped::NotStored);
        return None;
    }
    Some(answers)
}

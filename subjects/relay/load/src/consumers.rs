//! Downstream consumers: each has a thread, reads what the relay fans out, and notes when.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use highwater_load::clock::now_ns;
use tungstenite::{Message, WebSocket};

use crate::message::number_of;
use crate::sent::Sent;

/// Between two attempts to reach the relay, which may start later than this.
const RETRY: Duration = Duration::from_millis(200);
/// A read returns this often to look for the end.
const POLL: Duration = Duration::from_millis(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Receives until `stop`, reconnecting as often as needed. `connected` counts those that are.
pub fn consume(relay: SocketAddr, sent: &Sent, connected: &AtomicUsize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Some(mut socket) = connect(relay) {
            connected.fetch_add(1, Ordering::SeqCst);
            receive(&mut socket, sent, stop);
            connected.fetch_sub(1, Ordering::SeqCst);
        }
        std::thread::sleep(RETRY);
    }
}

fn connect(relay: SocketAddr) -> Option<WebSocket<TcpStream>> {
    let stream = TcpStream::connect_timeout(&relay, CONNECT_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).ok()?;
    let url = format!("ws://{relay}/xrpc/com.atproto.sync.subscribeRepos");
    let (socket, _) = tungstenite::client(url, stream).ok()?;
    socket.get_ref().set_read_timeout(Some(POLL)).ok()?;
    Some(socket)
}

/// Returns when the connection ends or the load does.
fn receive(socket: &mut WebSocket<TcpStream>, sent: &Sent, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match socket.read() {
            Ok(Message::Binary(frame)) => {
                let received_ns = now_ns();
                if let Some(number) = number_of(&frame) {
                    sent.received(number, received_ns);
                }
            }
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if is_timeout(error.kind()) => {}
            Err(_) => return,
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

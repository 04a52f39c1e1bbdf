//! Thousands of hosts in one thread: WebSocket servers on one port, told apart by `host=N` in the
//! request, or by their order when it is absent.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use highwater_load::clock::{now_ns, sleep_until};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

const LISTENER: Token = Token(0);
const PATH: &str = "/xrpc/com.atproto.sync.subscribeRepos";

/// Bytes that may wait for one relay connection to take them; further messages are dropped.
const PENDING_MAX: usize = 1 << 20;

/// Connections beyond the hosts: those in their handshake, and old ones being replaced.
const EXTRA_CONNECTIONS: usize = 256;

type Shaking = MidHandshake<ServerHandshake<TcpStream, TakeHost>>;

enum Stage {
    Shaking(Shaking),
    Open(WebSocket<TcpStream>),
}

struct Connection {
    stage: Stage,
    /// What its request asked for, once read.
    asked: Arc<OnceLock<usize>>,
    host: Option<usize>,
}

/// Why a message was not sent.
#[derive(Debug, PartialEq, Eq)]
pub enum NotSent {
    NotConnected,
    /// The relay does not take what was sent before.
    Full,
}

pub struct Hosts {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    /// By token, less one.
    connections: Vec<Option<Connection>>,
    /// By host: its connection.
    open: Vec<Option<usize>>,
}

impl Hosts {
    /// Listens for the connections of `count` hosts.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub fn listen(address: SocketAddr, count: usize) -> io::Result<Hosts> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let events = Events::with_capacity(1024);
        Ok(Hosts {
            poll,
            events,
            listener,
            connections: Vec::new(),
            open: vec![None; count],
        })
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Hosts to which the relay is connected.
    pub fn connected(&self) -> usize {
        self.open.iter().flatten().count()
    }

    /// Serves connections until `until_ns`.
    ///
    /// # Errors
    /// When the kernel's poll fails; trouble of a single connection only ends that connection.
    pub fn serve(&mut self, until_ns: u64) -> io::Result<()> {
        loop {
            let now = now_ns();
            // The kernel's poll counts in milliseconds and rounds up: the rest is slept.
            let wait = Duration::from_millis(until_ns.saturating_sub(now) / 1_000_000);
            match self.poll.poll(&mut self.events, Some(wait)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
            for token in tokens {
                match token {
                    LISTENER => self.accept(),
                    Token(number) => self.advance(number - 1),
                }
            }
            if until_ns.saturating_sub(now_ns()) < 1_000_000 {
                sleep_until(until_ns);
                return Ok(());
            }
        }
    }

    /// Hands a message to the kernel, or keeps it until the kernel takes it.
    pub fn send(&mut self, host: usize, bytes: Vec<u8>) -> Result<(), NotSent> {
        let index = self.open[host].ok_or(NotSent::NotConnected)?;
        let connection = self.connections[index]
            .as_mut()
            .ok_or(NotSent::NotConnected)?;
        let Stage::Open(socket) = &mut connection.stage else {
            return Err(NotSent::NotConnected);
        };
        match socket.send(Message::binary(bytes)) {
            Ok(()) => Ok(()),
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(tungstenite::Error::WriteBufferFull(_)) => Err(NotSent::Full),
            Err(_) => {
                self.close(index);
                Err(NotSent::NotConnected)
            }
        }
    }

    fn accept(&mut self) {
        // Any error here concerns the one connection, or says that there is none.
        while let Ok((stream, _)) = self.listener.accept() {
            let index = self.connections.iter().position(Option::is_none);
            let index = index.unwrap_or(self.connections.len());
            if index >= self.open.len() + EXTRA_CONNECTIONS {
                continue; // dropping the stream closes it
            }
            if let Some(connection) = self.shake_hands(stream, Token(index + 1)) {
                if index == self.connections.len() {
                    self.connections.push(None);
                }
                self.connections[index] = Some(connection);
                self.settle(index);
            }
        }
    }

    fn shake_hands(&self, mut stream: TcpStream, token: Token) -> Option<Connection> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, token, interest)
            .ok()?;
        let _ = stream.set_nodelay(true);
        let asked = Arc::new(OnceLock::new());
        let callback = TakeHost {
            asked: asked.clone(),
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(1024)
            .write_buffer_size(0)
            .max_write_buffer_size(PENDING_MAX)
            .max_message_size(Some(64 * 1024));
        match tungstenite::accept_hdr_with_config(stream, callback, Some(config)) {
            Ok(socket) => Some(Connection {
                stage: Stage::Open(socket),
                asked,
                host: None,
            }),
            Err(HandshakeError::Interrupted(shaking)) => Some(Connection {
                stage: Stage::Shaking(shaking),
                asked,
                host: None,
            }),
            Err(HandshakeError::Failure(_)) => None,
        }
    }

    /// Goes on with a connection that can read or write again.
    fn advance(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::take) else {
            return;
        };
        let Connection { stage, asked, host } = connection;
        let stage = match stage {
            Stage::Open(socket) => Some(Stage::Open(socket)),
            Stage::Shaking(shaking) => match shaking.handshake() {
                Ok(socket) => Some(Stage::Open(socket)),
                Err(HandshakeError::Interrupted(shaking)) => Some(Stage::Shaking(shaking)),
                Err(HandshakeError::Failure(_)) => None,
            },
        };
        let Some(stage) = stage else { return };
        self.connections[index] = Some(Connection { stage, asked, host });
        self.settle(index);
        if !self.read_and_flush(index) {
            self.close(index);
        }
    }

    /// Gives an opened connection its host. A host that is dialled again replaces its old
    /// connection, whose end may not have been noticed.
    fn settle(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        if connection.host.is_some() || matches!(connection.stage, Stage::Shaking(_)) {
            return;
        }
        let free = || self.open.iter().position(Option::is_none);
        let Some(host) = connection
            .asked
            .get()
            .copied()
            .or_else(free)
            .filter(|host| *host < self.open.len())
        else {
            self.connections[index] = None;
            return;
        };
        connection.host = Some(host);
        if let Some(old) = self.open[host].replace(index) {
            self.connections[old] = None;
        }
    }

    /// False when the connection is over.
    fn read_and_flush(&mut self, index: usize) -> bool {
        let Some(Connection {
            stage: Stage::Open(socket),
            ..
        }) = &mut self.connections[index]
        else {
            return true;
        };
        loop {
            match socket.read() {
                Ok(_) => continue, // a relay has nothing to say; pings are answered by read itself
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    break;
                }
                Err(_) => return false,
            }
        }
        match socket.flush() {
            Err(tungstenite::Error::Io(error)) => error.kind() == ErrorKind::WouldBlock,
            other => other.is_ok(),
        }
    }

    fn close(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else {
            return;
        };
        if let Some(host) = connection.host
            && self.open[host] == Some(index)
        {
            self.open[host] = None;
        }
    }
}

/// Reads the host's number out of the request.
struct TakeHost {
    asked: Arc<OnceLock<usize>>,
}

impl Callback for TakeHost {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        if request.uri().path() != PATH {
            let mut answer = ErrorResponse::new(Some(format!("only {PATH} is here\n")));
            *answer.status_mut() = tungstenite::http::StatusCode::NOT_FOUND;
            return Err(answer);
        }
        let pairs = request.uri().query().unwrap_or("").split('&');
        let host = pairs.filter_map(|pair| pair.strip_prefix("host=")).next();
        if let Some(number) = host.and_then(|number| number.parse().ok()) {
            // Empty until now: a handshake has one request.
            let _ = self.asked.set(number);
        }
        Ok(response)
    }
}

//! The client's side of a relay's link, as far as a load needs it: TLS, cells, one-hop circuits, directory requests.
//!
//! Written from tor-spec.txt and dir-spec.txt (link protocol 4, CREATE_FAST, relay cells, authenticated SENDMEs). A
//! relay's certificates are not checked: it is on our own loopback, and its work is the same.

pub mod cell;
pub mod circuit;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use self::cell::{Cell, Command};
use self::circuit::{Circuit, Keys};

/// For a relay on the same machine; a stop of it that is longer is a time-out.
const PATIENCE: Duration = Duration::from_secs(10);
/// Cells before the link is up: versions, certificates, challenge, addresses.
const GREETINGS_MAX: usize = 8;
/// The side that opened the link picks circuit numbers with this bit.
const OURS: u32 = 1 << 31;

/// A link to one relay.
pub struct Link {
    stream: StreamOwned<ClientConnection, TcpStream>,
    circuits: u32,
}

impl Link {
    /// # Errors
    /// The relay is not there, does not speak link protocol 4, or takes too long.
    pub fn open(relay: SocketAddr) -> io::Result<Self> {
        static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(config);
        let socket = TcpStream::connect_timeout(&relay, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("www.example.com").map_err(io::Error::other)?;
        let connection = ClientConnection::new(CONFIG.clone(), name).map_err(io::Error::other)?;
        let mut link = Self {
            stream: StreamOwned::new(connection, socket),
            circuits: 0,
        };
        link.greet(relay)?;
        Ok(link)
    }

    fn greet(&mut self, relay: SocketAddr) -> io::Result<()> {
        self.stream.write_all(&cell::versions(&[4]))?;
        self.stream.flush()?;
        let versions = Cell::read_versions(&mut self.stream)?;
        if !versions.contains(&4) {
            return Err(wrong(format!(
                "it speaks link protocols {versions:?}, not 4"
            )));
        }
        for _ in 0..GREETINGS_MAX {
            if self.receive()?.command == Command::NETINFO {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let seconds = now.map_or(0, |since| since.as_secs() as u32);
                return self.send(0, Command::NETINFO, &cell::net_info(seconds, relay));
            }
        }
        Err(wrong("it never said who it is".into()))
    }

    pub fn send(&mut self, circuit: u32, command: Command, payload: &[u8]) -> io::Result<()> {
        self.stream
            .write_all(&cell::fixed(circuit, command, payload))?;
        self.stream.flush()
    }

    pub fn receive(&mut self) -> io::Result<Cell> {
        Cell::read(&mut self.stream)
    }

    /// The next cell of this circuit; what the relay sends for others (padding) is passed over.
    pub fn receive_on(&mut self, circuit: u32) -> io::Result<Cell> {
        loop {
            let cell = self.receive()?;
            if cell.circuit == circuit {
                return Ok(cell);
            }
        }
    }

    /// A circuit of one hop.
    ///
    /// # Errors
    /// The relay refuses, or takes too long.
    pub fn circuit(&mut self, random: &mut fastrand::Rng) -> io::Result<Circuit> {
        self.circuits += 1;
        let id = OURS | self.circuits;
        let mut ours = [0; 20];
        random.fill(&mut ours);
        self.send(id, Command::CREATE_FAST, &ours)?;
        let cell = self.receive_on(id)?;
        if cell.command != Command::CREATED_FAST || cell.payload.len() < 40 {
            return Err(wrong(format!("no circuit, but cell {:?}", cell.command)));
        }
        let keys = Keys::of(&ours, &cell.payload[..20]);
        if keys.proof != cell.payload[20..40] {
            return Err(wrong("its proof of the keys does not fit".into()));
        }
        Ok(Circuit::new(id, &keys))
    }

    /// Says goodbye, so that the relay need not find out.
    pub fn close(mut self) {
        self.stream.conn.send_close_notify();
        let _ = self.stream.flush();
    }
}

fn wrong(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// Reads exactly what fills `bytes`; a time-out is one, whatever the platform calls it.
pub(crate) fn read_full(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<()> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}

fn config() -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let schemes = provider
        .signature_verification_algorithms
        .supported_schemes();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(schemes)))
        .with_no_client_auth();
    Arc::new(config)
}

/// Takes every certificate.
#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

//! The control port of the private network's client: a circuit of relays that we choose, and a stream put on it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::link::circuit::parse_status;
use crate::torrc::{CLIENT_CONTROL_PORT, CLIENT_SOCKS_PORT, PAGE_PORT};

const LINE_BYTES_MAX: u64 = 64 << 10;

/// A connection to the control port.
pub struct Control {
    lines: BufReader<TcpStream>,
    patience: Duration,
    until: Instant,
}

/// A page that came through a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    pub status: u16,
    pub bytes: u64,
}

impl Control {
    /// `patience` is for everything that is asked over this connection, together.
    ///
    /// # Errors
    /// When the client is not there.
    pub fn open(patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, CLIENT_CONTROL_PORT))
            .context("the client's control port")?;
        stream.set_read_timeout(Some(patience))?;
        let mut control = Self {
            lines: BufReader::new(stream),
            patience,
            until: Instant::now() + patience,
        };
        control.ask("AUTHENTICATE")?;
        control.ask("SETEVENTS CIRC STREAM")?;
        Ok(control)
    }

    /// Builds a circuit along `path` (fingerprints), and pulls `bytes` of the page through it.
    ///
    /// # Errors
    /// No circuit, no stream, no answer: what the client said last.
    pub fn pull(&mut self, path: &[String], bytes: u64) -> Result<Pulled> {
        let hops: Vec<String> = path.iter().map(|hop| format!("${hop}")).collect();
        let said = self.ask(&format!("EXTENDCIRCUIT 0 {}", hops.join(",")))?;
        let circuit = said.strip_prefix("250 EXTENDED ").context(said.clone())?;
        let circuit = circuit.to_owned();
        self.wait_for_circuit(&circuit)?;
        let pulled = self.pull_on(&circuit, bytes);
        let _ = self.ask(&format!("CLOSECIRCUIT {circuit}"));
        pulled
    }

    fn wait_for_circuit(&mut self, circuit: &str) -> Result<()> {
        loop {
            let line = self.line()?;
            match parse_event(&line) {
                Some(("CIRC", id, "BUILT", _)) if id == circuit => return Ok(()),
                Some(("CIRC", id, end @ ("FAILED" | "CLOSED"), rest)) if id == circuit => {
                    bail!("the circuit was not built: {end}{}", reasons(rest))
                }
                _ => {}
            }
        }
    }

    fn pull_on(&mut self, circuit: &str, bytes: u64) -> Result<Pulled> {
        let mut socks = TcpStream::connect((Ipv4Addr::LOCALHOST, CLIENT_SOCKS_PORT))
            .context("the client's SOCKS port")?;
        socks.set_read_timeout(Some(self.patience))?;
        let own = socks.local_addr()?;
        socks.write_all(&socks_request())?;
        let stream = self.wait_for_stream(own)?;
        self.ask(&format!("ATTACHSTREAM {stream} {circuit}"))?;
        let mut answer = [0; 8];
        socks.read_exact(&mut answer).context("the SOCKS answer")?;
        ensure!(answer[1] == 90, "SOCKS answered {}", answer[1]);
        write!(socks, "GET /{bytes} HTTP/1.0\r\n\r\n")?;
        let (mut head, mut total) = (Vec::new(), 0);
        let mut piece = vec![0; 64 << 10];
        loop {
            let got = socks.read(&mut piece).context("the page")?;
            if got == 0 {
                break;
            }
            if head.len() < 64 {
                head.extend_from_slice(&piece[..got.min(64)]);
            }
            total += got as u64;
        }
        let status = parse_status(&head).context("no HTTP in the page")?;
        Ok(Pulled {
            status,
            bytes: total,
        })
    }

    /// The stream that came from this address of ours.
    fn wait_for_stream(&mut self, own: SocketAddr) -> Result<String> {
        let source = format!("SOURCE_ADDR={own}");
        loop {
            let line = self.line()?;
            if let Some(("STREAM", id, "NEW", rest)) = parse_event(&line)
                && rest.split_whitespace().any(|word| word == source)
            {
                return Ok(id.to_owned());
            }
        }
    }

    /// The last line of the answer, a `250`.
    fn ask(&mut self, command: &str) -> Result<String> {
        write!(self.lines.get_mut(), "{command}\r\n")?;
        loop {
            let line = self.line()?;
            // Events come in between.
            if line.starts_with("250 ") {
                return Ok(line);
            }
            ensure!(
                line.starts_with("650") || line.starts_with("250"),
                "{command}: {line}"
            );
        }
    }

    fn line(&mut self) -> Result<String> {
        ensure!(
            Instant::now() < self.until,
            "nothing came of it within {:?}",
            self.patience
        );
        let mut line = String::new();
        let mut bounded = (&mut self.lines).take(LINE_BYTES_MAX);
        let got = bounded.read_line(&mut line).context("the control port")?;
        ensure!(got > 0, "the client has closed its control port");
        Ok(line.trim_end().to_owned())
    }
}

/// `650 CIRC 12 BUILT rest`: kind, id, state, rest.
fn parse_event(line: &str) -> Option<(&str, &str, &str, &str)> {
    let mut words = line.strip_prefix("650 ")?.splitn(4, ' ');
    let (kind, id, state) = (words.next()?, words.next()?, words.next()?);
    Some((kind, id, state, words.next().unwrap_or_default()))
}

/// SOCKS 4: connect to the page.
fn socks_request() -> Vec<u8> {
    let mut bytes = vec![4, 1];
    bytes.extend_from_slice(&PAGE_PORT.to_be_bytes());
    bytes.extend_from_slice(&Ipv4Addr::LOCALHOST.octets());
    bytes.push(0);
    bytes
}

/// " REASON=DESTROYED REMOTE_REASON=..." of an event: why, after the path.
fn reasons(rest: &str) -> String {
    let said = rest
        .split_whitespace()
        .filter(|word| word.contains("REASON="));
    said.map(|word| format!(" {word}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_real_client() {
        // The control port of tor 0.4.9.11 in a private network; the third is cut at its end.
        let line = "650 CIRC 12 BUILT $1BB7C0FE2071E053490B6B69F2784B6FA4D918D4~authority0,\
                    $3F975BD502ED6989303087F0957C7CE5980457FB~authority1 PURPOSE=GENERAL \
                    TIME_CREATED=2026-11-22T00:06:27.795629";
        let (kind, id, state, _) = parse_event(line).unwrap();
        assert_eq!((kind, id, state), ("CIRC", "12", "BUILT"));
        let rest = "$1BB7C0FE2071E053490B6B69F2784B6FA4D918D4~authority0 PURPOSE=GENERAL \
                    REASON=DESTROYED REMOTE_REASON=TORPROTOCOL";
        assert_eq!(reasons(rest), " REASON=DESTROYED REMOTE_REASON=TORPROTOCOL");
        let line = "650 STREAM 44 NEW 0 127.0.0.1:8080 SOURCE_ADDR=127.0.0.1:39544 PURPOSE=USER \
                    CLIENT_PROTOCOL=SOCKS4 NYM_EPOCH=0";
        let (_, id, state, rest) = parse_event(line).unwrap();
        assert_eq!((id, state), ("44", "NEW"));
        assert!(rest.contains("SOURCE_ADDR=127.0.0.1:39544 "));
        assert_eq!(parse_event("250 OK"), None);
        assert_eq!(parse_event("650 CIRC"), None);
    }
}

//! Cells: what a link is made of.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};

use super::read_full;

/// Payload of a cell of fixed length.
pub const PAYLOAD: usize = 509;
/// Longest payload of a cell of variable length that a relay sends before the link is up, with room to spare.
const VARIABLE_MAX: usize = 32 << 10;
/// Types of an address in NETINFO.
const IPV4: u8 = 4;
const IPV6: u8 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command(pub u8);

impl Command {
    pub const RELAY: Self = Self(3);
    pub const DESTROY: Self = Self(4);
    pub const CREATE_FAST: Self = Self(5);
    pub const CREATED_FAST: Self = Self(6);
    pub const VERSIONS: Self = Self(7);
    pub const NETINFO: Self = Self(8);

    fn has_length(self) -> bool {
        self == Self::VERSIONS || self.0 >= 128
    }
}

/// A cell as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub circuit: u32,
    pub command: Command,
    pub payload: Vec<u8>,
}

impl Cell {
    /// # Errors
    /// Those of the stream, and a length that nothing asks for.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 5];
        read_full(from, &mut head)?;
        let circuit = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let command = Command(head[4]);
        let length = if command.has_length() {
            read_length(from)?
        } else {
            PAYLOAD
        };
        let mut payload = vec![0; length];
        read_full(from, &mut payload)?;
        Ok(Self {
            circuit,
            command,
            payload,
        })
    }

    /// The first cell, whose circuit number is still short: the versions that the relay speaks.
    ///
    /// # Errors
    /// Those of the stream, and any other cell.
    pub fn read_versions(from: &mut impl Read) -> io::Result<Vec<u16>> {
        let mut head = [0; 3];
        read_full(from, &mut head)?;
        if Command(head[2]) != Command::VERSIONS {
            return Err(super::wrong("its first cell is not VERSIONS".into()));
        }
        let mut payload = vec![0; read_length(from)?];
        read_full(from, &mut payload)?;
        let pairs = payload.chunks_exact(2);
        Ok(pairs
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect())
    }
}

fn read_length(from: &mut impl Read) -> io::Result<usize> {
    let mut length = [0; 2];
    read_full(from, &mut length)?;
    match usize::from(u16::from_be_bytes(length)) {
        length if length <= VARIABLE_MAX => Ok(length),
        length => Err(super::wrong(format!("a cell of {length} bytes"))),
    }
}

/// A cell of fixed length, filled up with zeros.
pub fn fixed(circuit: u32, command: Command, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + PAYLOAD);
    bytes.extend_from_slice(&circuit.to_be_bytes());
    bytes.push(command.0);
    bytes.extend_from_slice(payload);
    bytes.resize(5 + PAYLOAD, 0);
    bytes
}

/// The first cell of a link.
pub fn versions(all: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0, 0, Command::VERSIONS.0];
    bytes.extend_from_slice(&((all.len() * 2) as u16).to_be_bytes());
    all.iter()
        .for_each(|one| bytes.extend_from_slice(&one.to_be_bytes()));
    bytes
}

/// What a client tells: the time, the relay's address, none of its own.
pub fn net_info(seconds: u32, relay: SocketAddr) -> Vec<u8> {
    let mut bytes = seconds.to_be_bytes().to_vec();
    match relay.ip() {
        IpAddr::V4(ip) => {
            bytes.extend_from_slice(&[IPV4, 4]);
            bytes.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.extend_from_slice(&[IPV6, 16]);
            bytes.extend_from_slice(&ip.octets());
        }
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_are_written() {
        let bytes = fixed(0x8000_0001, Command::CREATE_FAST, b"abc");
        let cell = Cell::read(&mut bytes.as_slice()).unwrap();
        assert_eq!(
            (cell.circuit, cell.command),
            (0x8000_0001, Command::CREATE_FAST)
        );
        assert_eq!(
            (&cell.payload[..3], cell.payload.len()),
            (b"abc".as_slice(), PAYLOAD)
        );
        assert_eq!(
            Cell::read_versions(&mut versions(&[3, 4, 5]).as_slice()).unwrap(),
            [3, 4, 5]
        );
    }

    #[test]
    fn what_is_cut_short_or_absurd_is_an_error() {
        let bytes = fixed(1, Command::RELAY, b"");
        assert!(Cell::read(&mut &bytes[..100]).is_err());
        let long = [0, 0, 0, 0, 130, 0xff, 0xff];
        assert!(
            Cell::read(&mut long.as_slice())
                .unwrap_err()
                .to_string()
                .contains("65535")
        );
        assert!(Cell::read_versions(&mut bytes.as_slice()).is_err());
    }
}

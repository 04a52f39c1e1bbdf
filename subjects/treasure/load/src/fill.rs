//! Sessions in bulk: opened over a few connections, and each tapped once, pipelined.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use treasure::protocol::{Answer, Refused, Request, parse_answer};

/// Requests sent before answers are read: their answers fit the socket's buffers.
const PIPELINED: usize = 512;
/// A server that is silent for so long is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// Opens `count` sessions; their tokens.
///
/// # Errors
/// When the connection fails, or the server has no room.
pub fn open(server: SocketAddr, count: usize) -> io::Result<Vec<u64>> {
    let mut tokens = Vec::with_capacity(count);
    let hellos = (0..count).map(|_| Request::Hello { token: 0 });
    talk(server, hellos, |answer| match answer {
        Answer::Welcome { token, .. } => {
            tokens.push(token);
            Ok(())
        }
        other => Err(format!("{other:?} to a hello")),
    })?;
    Ok(tokens)
}

/// Of these sessions, those that the server still knows.
///
/// # Errors
/// When the connection fails.
pub fn known(server: SocketAddr, tokens: &[u64]) -> io::Result<Vec<u64>> {
    let mut known = Vec::new();
    let hellos = tokens.iter().map(|token| Request::Hello { token: *token });
    talk(server, hellos, |answer| match answer {
        Answer::Welcome { token, .. } => {
            known.push(token);
            Ok(())
        }
        Answer::Refusal {
            why: Refused::Unknown,
            ..
        } => Ok(()),
        other => Err(format!("{other:?} to a hello")),
    })?;
    Ok(known)
}

/// Resumes each session and taps it once; `taps_before` is the number of its taps so far.
///
/// # Errors
/// When a session is not there, or its account is not that.
pub fn tap_each(server: SocketAddr, tokens: &[u64], taps_before: u32) -> io::Result<()> {
    let number = taps_before + 1;
    let both = |token: &u64| {
        [
            Request::Hello { token: *token },
            Request::Tap { number, x: 1, y: 1 },
        ]
    };
    talk(
        server,
        tokens.iter().flat_map(both),
        |answer| match answer {
            Answer::Welcome { taps, .. } if taps == taps_before => Ok(()),
            Answer::Coin { number: given, .. } if given == number => Ok(()),
            other => Err(format!("{other:?} to a session with {taps_before} taps")),
        },
    )
}

/// Sends requests in bunches and hands out one answer for each.
fn talk(
    server: SocketAddr,
    requests: impl Iterator<Item = Request>,
    mut hear: impl FnMut(Answer) -> Result<(), String>,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let mut requests = requests.peekable();
    let mut input = Vec::new();
    while requests.peek().is_some() {
        let mut output = Vec::new();
        let mut missing = 0;
        for request in requests.by_ref().take(PIPELINED) {
            output.extend_from_slice(request.frame().bytes());
            missing += 1;
        }
        stream.write_all(&output)?;
        while missing > 0 {
            let mut bytes = [0; 16 * 1024];
            let read = stream.read(&mut bytes)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            input.extend_from_slice(&bytes[..read]);
            let mut taken = 0;
            let broken = |broken| io::Error::other(format!("the server sent no frame: {broken:?}"));
            while let Some((answer, length)) = parse_answer(&input[taken..]).map_err(broken)? {
                taken += length;
                missing -= 1;
                hear(answer).map_err(io::Error::other)?;
            }
            input.drain(..taken);
        }
    }
    Ok(())
}

//! One session with the inspector: commands out, replies and events in.
//!
//! A thread reads the socket all the time. A program that ends while a debugger is attached waits for it to disconnect;
//! the thread does that as soon as the inspector reports it, so the program ends when it would have ended.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::wire;
use crate::Error;

/// Messages that wait for the caller; the socket holds the others back.
const WAITING: usize = 64;
/// Reported when the program has ended and waits for us.
const ENDS: &str = "NodeRuntime.waitingForDisconnect";

/// A message of the inspector, whole; only its envelope is parsed.
struct Message {
    id: Option<u64>,
    error: Option<String>,
    text: Vec<u8>,
}

/// Fields that are not named here may nest to any depth: they are skipped without recursion.
#[derive(Deserialize)]
struct Envelope {
    id: Option<u64>,
    method: Option<String>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

pub struct Session {
    stream: TcpStream,
    messages: Receiver<Message>,
    last_id: u64,
}

impl Session {
    /// A session at the WebSocket `path` of the inspector that listens on `port`.
    pub fn connect(port: u16, path: &str, within: Duration) -> Result<Session, Error> {
        let stream = wire::upgrade(port, path, within).map_err(|error| refused(&error))?;
        let reader = stream.try_clone().map_err(|error| refused(&error))?;
        let (sender, messages) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("hw-inspector".into());
        thread
            .spawn(move || receive(reader, &sender))
            .map_err(|error| refused(&error))?;
        let mut session = Session {
            stream,
            messages,
            last_id: 0,
        };
        session.call(
            "NodeRuntime.notifyWhenWaitingForDisconnect",
            &json!({"enabled": true}),
            within,
        )?;
        Ok(session)
    }

    /// The reply to a command, as JSON text. The inspector's refusal is [`Error::Refused`].
    pub fn call(
        &mut self,
        method: &str,
        params: &Value,
        within: Duration,
    ) -> Result<Vec<u8>, Error> {
        self.call_with_events(method, params, within, |_| Ok(()))
    }

    /// The same; events that come before the reply go to `event`, as JSON text.
    pub fn call_with_events(
        &mut self,
        method: &str,
        params: &Value,
        within: Duration,
        mut event: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        self.last_id += 1;
        let command = json!({"id": self.last_id, "method": method, "params": params});
        let frame = wire::frame(&command.to_string());
        self.stream.write_all(&frame).map_err(|_| closed())?;
        let until = Instant::now() + within;
        loop {
            let message = self.receive(method, until)?;
            match message.id {
                None => event(&message.text)?,
                Some(id) if id != self.last_id => {} // Its caller has given up.
                Some(_) => {
                    let refusal = |why| Error::Refused(format!("Node.js refused {method}: {why}"));
                    return message
                        .error
                        .map_or(Ok(message.text), |why| Err(refusal(why)));
                }
            }
        }
    }

    fn receive(&self, method: &str, until: Instant) -> Result<Message, Error> {
        let left = until.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::Refused(format!(
                "Node.js did not answer {method} in time: its main thread is busy outside JavaScript or stopped"
            )),
            RecvTimeoutError::Disconnected => closed(),
        })
    }

    /// The value of an expression, as JSON; an exception in it is an error.
    pub fn evaluate(&mut self, expression: &str, within: Duration) -> Result<Value, Error> {
        #[derive(Deserialize)]
        struct Reply {
            result: Evaluated,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Evaluated {
            result: Remote,
            exception_details: Option<Value>,
        }
        #[derive(Deserialize)]
        struct Remote {
            value: Option<Value>,
        }
        let params = json!({
            "expression": expression, "includeCommandLineAPI": true, "returnByValue": true, "silent": true,
        });
        let text = self.call("Runtime.evaluate", &params, within)?;
        let reply: Reply = parse(&text)?;
        match (reply.result.exception_details, reply.result.result.value) {
            (None, Some(value)) => Ok(value),
            _ => Err(Error::Refused(
                "Node.js could not evaluate what highwater asked".into(),
            )),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The reader's end of the socket goes with it, and so does the thread.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// JSON of the inspector in the shape that its documentation gives.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(text)
        .map_err(|error| Error::Refused(format!("the inspector's answer is broken: {error}")))
}

pub fn refused(error: &io::Error) -> Error {
    Error::Refused(format!("its inspector could not be used: {error}"))
}

fn closed() -> Error {
    Error::Refused(
        "the inspector closed the connection: the program has ended, or it closed its inspector"
            .into(),
    )
}

/// Reads until either side closes.
fn receive(stream: TcpStream, sender: &SyncSender<Message>) {
    let mut reader = BufReader::new(&stream);
    while let Ok(Some(text)) = wire::read_message(&mut reader) {
        let Ok(envelope) = serde_json::from_slice::<Envelope>(&text) else {
            break;
        };
        if envelope.method.as_deref() == Some(ENDS) {
            break;
        }
        let message = Message {
            id: envelope.id,
            error: envelope.error.map(|error| error.message),
            text,
        };
        if sender.send(message).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

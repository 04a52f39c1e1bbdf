//! One session with the inspector: commands out, replies and events in.
//!
//! A thread reads the socket all the time. A program that ends while a debugger is attached waits for it to disconnect;
//! the thread does that as soon as the inspector reports it, so the program ends when it would have ended.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::queue::{Empty, Queue};
use super::wire;
use crate::Error;

/// Of commands whose replies are dropped.
const UNREAD: u64 = 0;
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
    /// Writes are whole frames, from two threads.
    writer: Arc<Mutex<TcpStream>>,
    messages: Arc<Queue<Message>>,
    last_id: u64,
    /// Its end stops the thread that repeats a command.
    repeating: Option<Sender<()>>,
}

impl Session {
    /// A session at the WebSocket `path` of the inspector that listens at `address`.
    pub fn connect(address: SocketAddr, path: &str, within: Duration) -> Result<Session, Error> {
        let stream = wire::upgrade(address, path, within).map_err(|error| refused(&error))?;
        let copy = || stream.try_clone().map_err(|error| refused(&error));
        let (reader, writer) = (copy()?, copy()?);
        let messages = Arc::new(Queue::new());
        let queue = Arc::clone(&messages);
        spawn(move || receive(reader, &queue))?;
        let mut session = Session {
            stream,
            writer: Arc::new(Mutex::new(writer)),
            messages,
            last_id: UNREAD,
            repeating: None,
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
        let sent = send(&self.writer, self.last_id, method, params);
        let until = Instant::now() + within;
        let reply = sent.and_then(|()| self.reply(method, until, &mut event));
        let refusal = |why| Error::Refused(format!("Node.js refused {method}: {why}"));
        match reply {
            Ok(message) => message
                .error
                .map_or(Ok(message.text), |why| Err(refusal(why))),
            Err(error) => {
                // What still comes (the rest of a heap snapshot) would be taken for the next call's.
                self.shut_down();
                Err(error)
            }
        }
    }

    fn reply(
        &self,
        method: &str,
        until: Instant,
        event: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Message, Error> {
        loop {
            let message = self.messages.pop(until).map_err(|empty| match empty {
                Empty::Timeout => Error::Refused(format!(
                    "Node.js did not answer {method} in time: its main thread is busy outside JavaScript or stopped"
                )),
                Empty::Closed => closed(),
            })?;
            match message.id {
                None => event(&message.text)?,
                Some(id) if id != self.last_id => {}
                Some(_) => return Ok(message),
            }
        }
    }

    fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.messages.close();
    }

    /// Evaluates the expression again and again while the session lasts; its value and its failures are dropped.
    pub fn repeat(&mut self, expression: &str, every: Duration) -> Result<(), Error> {
        let params = evaluation(expression);
        let writer = Arc::clone(&self.writer);
        let (repeating, ends) = channel();
        spawn(move || {
            while ends.recv_timeout(every) == Err(RecvTimeoutError::Timeout)
                && send(&writer, UNREAD, "Runtime.evaluate", &params).is_ok()
            {}
        })?;
        self.repeating = Some(repeating);
        Ok(())
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
        let text = self.call("Runtime.evaluate", &evaluation(expression), within)?;
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
        // The reader's end of the socket goes with it, and so do the threads.
        self.shut_down();
    }
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = std::thread::Builder::new().name("hw-inspector".into());
    thread.spawn(run).map(drop).map_err(|error| refused(&error))
}

fn send(writer: &Mutex<TcpStream>, id: u64, method: &str, params: &Value) -> Result<(), Error> {
    let command = json!({"id": id, "method": method, "params": params});
    let frame = wire::frame(&command.to_string());
    let mut stream = writer.lock().unwrap_or_else(PoisonError::into_inner);
    stream.write_all(&frame).map_err(|_| closed())
}

fn evaluation(expression: &str) -> Value {
    json!({"expression": expression, "includeCommandLineAPI": true, "returnByValue": true, "silent": true})
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

/// Reads until either side closes, or until the caller stops taking what is read: a thread that waits for it would
/// never see that the program has ended.
fn receive(stream: TcpStream, queue: &Queue<Message>) {
    let mut reader = BufReader::new(&stream);
    while let Ok(Some(text)) = wire::read_message(&mut reader) {
        let Ok(envelope) = serde_json::from_slice::<Envelope>(&text) else {
            break;
        };
        if envelope.method.as_deref() == Some(ENDS) {
            break;
        }
        if envelope.id == Some(UNREAD) {
            continue;
        }
        let bytes = text.len();
        let message = Message {
            id: envelope.id,
            error: envelope.error.map(|error| error.message),
            text,
        };
        if !queue.push(message, bytes) {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    queue.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// Accepts a session, answers its first command, and sends events until it is left; `true`: it was left.
    fn flood() -> (SocketAddr, JoinHandle<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let serve = move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).expect("a request");
            stream
                .write_all(b"HTTP/1.1 101 Switching\r\n\r\n")
                .expect("an answer");
            let _ = stream.read(&mut head).expect("a command");
            let reply = br#"{"id":1}"#;
            stream
                .write_all(&[&[0x81, 8], &reply[..]].concat())
                .expect("a reply");
            let event = br#"{"method":"Any.event","params":{}}"#;
            let event = [&[0x81, event.len() as u8], &event[..]].concat();
            let mut writer = stream.try_clone().expect("a copy");
            let floods = std::thread::spawn(move || while writer.write_all(&event).is_ok() {});
            // As Node.js does: the end of what the other side sends is the end of the session.
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("a timeout");
            let is_left = loop {
                match stream.read(&mut head) {
                    Ok(0) => break true,
                    Ok(_) => {}
                    Err(error) => break error.kind() == io::ErrorKind::ConnectionReset,
                }
            };
            let _ = stream.shutdown(Shutdown::Both);
            floods.join().expect("it ends");
            is_left
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn a_flood_of_events_does_not_move_the_deadline_and_ends_the_session() {
        let (address, server) = flood();
        let mut session =
            Session::connect(address, "/", Duration::from_secs(5)).expect("a session");
        let begin = Instant::now();
        let mut call = |within| session.call("Any.method", &json!({}), within);
        let error = call(Duration::from_millis(300)).expect_err("no reply");
        assert!(error.to_string().contains("did not answer"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(2));
        // What is still to come belongs to the call that was given up.
        assert_eq!(
            call(Duration::from_secs(5)).expect_err("it is shut"),
            closed()
        );
        assert!(server.join().expect("it ends"));
    }

    #[test]
    fn a_session_that_no_call_reads_is_shut_down() {
        let (address, server) = flood();
        let session = Session::connect(address, "/", Duration::from_secs(5)).expect("a session");
        assert!(server.join().expect("it ends"), "the reader blocks");
        drop(session);
    }
}

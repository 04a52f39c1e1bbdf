//! Whether a process is ready: asked again and again, never waited for. An attempt that can take time (HTTP, TCP)
//! runs on a thread of its own, so that a subject that accepts and never answers holds up nobody else.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use regex::Regex;

use super::logs::{Follower, Logs};
use crate::file::Ready;
use crate::placeholder;
use crate::placeholder::Values;

/// From the end of one attempt to the next.
const EVERY: Duration = Duration::from_millis(100);
/// One attempt takes no longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Attempts under way at once, in the whole process; more wait for the next poll.
const ATTEMPTS_MAX: usize = 128;

static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

/// `Ok` is ready; the words of the last failed attempt end up in "never ready".
type Answer = Result<(), String>;

/// What is asked of one process.
#[derive(Debug)]
pub enum Probe {
    /// Nothing: ready as soon as it runs.
    Nothing,
    Log {
        regex: Regex,
        logs: [Follower; 2],
    },
    Asked(Asking),
}

#[derive(Debug)]
pub struct Asking {
    question: Question,
    under_way: Option<Receiver<Answer>>,
    next: Duration,
    last: String,
}

/// What an attempt needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Http { url: String, status: u16 },
    Tcp { address: String },
}

impl Probe {
    /// Placeholders are filled in, except in a log's regular expression, where braces count.
    ///
    /// # Errors
    /// An unknown placeholder or a broken regular expression, in words.
    pub fn new(ready: Option<&Ready>, values: &Values, logs: &Logs) -> Result<Self, String> {
        let expand =
            |text: &str| placeholder::expand(text, values).map_err(|error| error.to_string());
        let question = match ready {
            None => return Ok(Self::Nothing),
            Some(Ready::Log { regex }) => {
                return Ok(Self::Log {
                    regex: Regex::new(regex).map_err(|error| error.to_string())?,
                    logs: [&logs.out, &logs.err].map(|file| Follower::new(file.clone())),
                });
            }
            Some(Ready::Http { url, status }) => Question::Http {
                url: expand(url)?,
                status: *status,
            },
            Some(Ready::Tcp { address }) => Question::Tcp {
                address: expand(address)?,
            },
        };
        Ok(Self::Asked(Asking {
            question,
            under_way: None,
            next: Duration::ZERO,
            last: "not asked yet".into(),
        }))
    }

    /// Whether the process is ready by now.
    pub fn poll(&mut self, now: Duration) -> bool {
        match self {
            Self::Nothing => true,
            Self::Log { regex, logs } => logs
                .iter_mut()
                .any(|log| log.any_line(|line| regex.is_match(line))),
            Self::Asked(asking) => asking.poll(now),
        }
    }

    /// What was asked and what came last, for "never ready".
    pub fn words(&self) -> String {
        match self {
            Self::Nothing => "nothing was asked".into(),
            Self::Log { regex, .. } => format!("no line matched {:?}", regex.as_str()),
            Self::Asked(asking) => format!("{}: {}", asking.question.words(), asking.last),
        }
    }
}

impl Asking {
    fn poll(&mut self, now: Duration) -> bool {
        if let Some(receiver) = &self.under_way {
            let answer = match receiver.try_recv() {
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => Err("the attempt broke off".into()),
                Ok(answer) => answer,
            };
            self.under_way = None;
            self.next = now + EVERY;
            match answer {
                Ok(()) => return true,
                Err(words) => self.last = words,
            }
        }
        if now >= self.next {
            self.under_way = begin(self.question.clone());
        }
        false
    }
}

/// Begins an attempt, unless too many are under way.
fn begin(question: Question) -> Option<Receiver<Answer>> {
    if ATTEMPTS.fetch_add(1, Ordering::Relaxed) >= ATTEMPTS_MAX {
        ATTEMPTS.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let (sender, receiver) = channel();
    let attempt = move || {
        let answer = question.ask();
        ATTEMPTS.fetch_sub(1, Ordering::Relaxed);
        // Nobody listens any more when the process ended meanwhile.
        let _ = sender.send(answer);
    };
    let started = thread::Builder::new()
        .name("highwater-ready".into())
        .spawn(attempt);
    if started.is_err() {
        ATTEMPTS.fetch_sub(1, Ordering::Relaxed);
    }
    started.ok().map(|_| receiver)
}

impl Question {
    /// Asks once; takes at most [`ATTEMPT_MAX`] (and the time of a name lookup).
    pub fn ask(&self) -> Answer {
        match self {
            Self::Http { url, status } => ask_http(url, *status),
            Self::Tcp { address } => ask_tcp(address),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Http { url, status } => format!("GET {url} for status {status}"),
            Self::Tcp { address } => format!("connect to {address}"),
        }
    }
}

fn ask_http(url: &str, status: u16) -> Answer {
    // A redirect is an answer, not a way; and a proxy from our environment knows nothing of the subject.
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(ATTEMPT_MAX))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .build()
        .into();
    let answer = agent.get(url).call().map_err(|error| error.to_string())?;
    match answer.status().as_u16() {
        seen if seen == status => Ok(()),
        seen => Err(format!("answered {seen}")),
    }
}

fn ask_tcp(address: &str) -> Answer {
    let resolved = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    let mut last = Err("no address".to_owned());
    for address in resolved {
        last = TcpStream::connect_timeout(&address, ATTEMPT_MAX)
            .map(drop)
            .map_err(|error| error.to_string());
        if last.is_ok() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers one request with this status line.
    fn server(status: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 1024]);
            let _ = write!(
                connection,
                "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        });
        port
    }

    fn ask(status_line: &'static str, status: u16) -> Answer {
        let url = format!("http://127.0.0.1:{}/health", server(status_line));
        Question::Http { url, status }.ask()
    }

    #[test]
    fn only_the_wanted_status_is_ready() {
        assert_eq!(ask("200 OK", 200), Ok(()));
        assert_eq!(ask("503 Busy", 503), Ok(()));
        assert_eq!(ask("503 Busy", 200), Err("answered 503".into()));
        assert_eq!(
            ask("302 Found\r\nlocation: http://127.0.0.1:1/", 200),
            Err("answered 302".into())
        );
    }

    #[test]
    fn tcp_needs_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(
            Question::Tcp {
                address: address.clone()
            }
            .ask(),
            Ok(())
        );
        drop(listener);
        assert!(Question::Tcp { address }.ask().is_err());
        assert!(
            Question::Tcp {
                address: "no port".into()
            }
            .ask()
            .is_err()
        );
    }

    #[test]
    fn polling_never_waits_and_keeps_the_last_words() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let ready = Ready::Tcp {
            address: "127.0.0.1:{port}".into(),
        };
        let values = Values {
            ports: vec![port],
            ..Values::default()
        };
        let logs = Logs::at(std::path::Path::new("/nonexistent"), "x", 1);
        let mut probe = Probe::new(Some(&ready), &values, &logs).unwrap();
        let mut now = Duration::ZERO;
        while probe.words().contains("not asked yet") {
            assert!(!probe.poll(now));
            now += Duration::from_millis(50);
            thread::sleep(Duration::from_millis(5));
        }
        assert!(probe.words().contains("refused"), "{}", probe.words());
        let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        while !probe.poll(now) {
            now += Duration::from_millis(50);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

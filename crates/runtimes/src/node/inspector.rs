//! Opening the inspector of a running Node.js, and closing it again.
//!
//! An inspector that is there already is used and left open. Otherwise SIGUSR1 starts it. Nothing is sent to a port
//! before /proc has shown that the process itself listens on it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;

use super::process::{self, DEFAULT_PORT, Options};
use super::session::{Session, parse, refused};
use super::{signals, wire};
use crate::Error;

/// For an answer that takes the inspector's own thread a millisecond.
const ANSWER: Duration = Duration::from_secs(2);
/// From the signal until it listens: 30 ms on an idle machine; the main thread may be in a long call of C++ code.
const START: Duration = Duration::from_secs(5);
/// From asking it to close until the port is free.
const CLOSE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(10);

/// `require` exists only while the expression is evaluated. What runs later must not throw: an exception in a timer
/// would end the program. Closing waits until no debugger is attached, so the session has to end first.
const CLOSING: &str = "(() => { const inspector = require('inspector'); \
    require('timers').setTimeout(() => { try { inspector.close() } catch {} }, 50).unref(); return true })()";

/// The inspector of one process, with a session.
pub struct Inspector {
    pid: u32,
    port: u16,
    /// `None` once it is closed.
    session: Option<Session>,
    /// SIGUSR1 started it, so it is ours to close.
    is_ours: bool,
    /// Of Node.js: `20.20.2`.
    pub version: String,
}

/// How the inspector of a process can be reached.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// It listens on this port.
    Listens(u16),
    /// SIGUSR1 starts it on this port; zero: any.
    Signal(u16),
}

/// Finds the way without touching the process.
pub fn way(pid: u32) -> Result<Way, Error> {
    let options = process::options(pid);
    if let Some(port) = listening(pid, &options) {
        return Ok(Way::Listens(port));
    }
    match process::catches_usr1(pid) {
        None => return Err(Error::Gone),
        Some(false) => {
            return refuse(
                "SIGUSR1 would end this Node.js process: it has no handler for it; start it with --inspect",
            );
        }
        Some(true) => {}
    }
    if !process::is_same_network(pid) {
        return refuse(&format!(
            "the process has a network of its own (a container): run highwater in it, with \
             nsenter --target {pid} --net highwater …"
        ));
    }
    let port = options.port.unwrap_or(DEFAULT_PORT);
    if port != 0
        && process::listeners(pid)
            .iter()
            .any(|listener| listener.port == port)
    {
        return refuse(&format!(
            "port {port}, on which Node.js would open its inspector, is taken by another socket: free it, or start \
             the program with --inspect-port=0"
        ));
    }
    if signals::handles_usr1(pid) == Some(true) {
        return refuse(
            "the program handles SIGUSR1 itself, so the signal would not open its inspector: start it with --inspect",
        );
    }
    Ok(Way::Signal(port))
}

fn refuse<T>(why: &str) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

/// The port where an inspector of the process listens; only ports that its options name are tried, since a request to
/// any other would reach a service.
fn listening(pid: u32, options: &Options) -> Option<u16> {
    let expected = options.port.unwrap_or(DEFAULT_PORT);
    let own = process::own_listeners(pid);
    let local = own.iter().filter(|listener| listener.is_local);
    let mut ports = local
        .map(|listener| listener.port)
        .filter(|port| *port == expected || options.on && expected == 0);
    ports.find(|port| version(*port).is_ok())
}

/// Of the inspector on this port.
fn version(port: u16) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "Browser")]
        browser: String,
    }
    let body = wire::get(port, "/json/version", ANSWER).map_err(|error| refused(&error))?;
    let version: Version = parse(&body)?;
    let version = version.browser.strip_prefix("node.js/v");
    version
        .map(str::to_owned)
        .ok_or_else(|| Error::Refused(format!("port {port} is not an inspector of Node.js")))
}

impl Inspector {
    /// Opens it if necessary, and attaches.
    pub fn open(pid: u32) -> Result<Inspector, Error> {
        let process = Pid::from_raw(pid.cast_signed()).ok_or(Error::Gone)?;
        // A pid may be given to another process; what is read before the signal is of this one, or there is no signal.
        let process = pidfd_open(process, PidfdFlags::empty()).map_err(|_| Error::Gone)?;
        let (port, is_ours) = match way(pid)? {
            Way::Listens(port) => (port, false),
            Way::Signal(port) => (start(pid, &process, port)?, true),
        };
        let mut inspector = Inspector {
            pid,
            port,
            session: None,
            is_ours,
            version: version(port)?,
        };
        inspector.session = Some(attach(port)?);
        Ok(inspector)
    }

    pub fn session(&mut self) -> Result<&mut Session, Error> {
        self.session
            .as_mut()
            .ok_or_else(|| Error::Refused("the inspector is closed".into()))
    }

    /// Detaches, and closes the inspector if SIGUSR1 had started it.
    pub fn close(&mut self) -> Result<(), Error> {
        let Some(mut session) = self.session.take() else {
            return Ok(());
        };
        if !self.is_ours {
            return Ok(());
        }
        session.evaluate(CLOSING, ANSWER)?;
        drop(session);
        let until = Instant::now() + CLOSE;
        while own_port(self.pid, self.port) {
            if Instant::now() > until {
                return refuse(&format!(
                    "the inspector still listens on port {} of 127.0.0.1",
                    self.port
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        // Nothing can be done about it here; who wants to know calls close.
        let _ = self.close();
    }
}

/// Sends SIGUSR1 and waits until the process listens on a port that is new.
fn start(pid: u32, process: &OwnedFd, port: u16) -> Result<u16, Error> {
    let before = process::own_listeners(pid);
    pidfd_send_signal(process, Signal::USR1).map_err(|errno| match errno {
        rustix::io::Errno::PERM => Error::Denied,
        _ => Error::Gone,
    })?;
    let until = Instant::now() + START;
    while Instant::now() < until {
        let own = process::own_listeners(pid);
        let mut new = own
            .iter()
            .filter(|listener| listener.is_local && !before.contains(listener));
        let expected = |candidate: &u16| *candidate == port || port == 0;
        if let Some(port) = new.find_map(|listener| Some(listener.port).filter(expected)) {
            return Ok(port);
        }
        std::thread::sleep(POLL);
    }
    refuse(
        "Node.js got SIGUSR1 and opened no inspector in 5 s: its main thread is busy outside JavaScript, or the \
         program handles the signal itself. The inspector may still open later",
    )
}

fn own_port(pid: u32, port: u16) -> bool {
    process::own_listeners(pid)
        .iter()
        .any(|listener| listener.port == port)
}

/// The first target is the program; others are its worker threads.
fn attach(port: u16) -> Result<Session, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Target {
        web_socket_debugger_url: Option<String>,
    }
    let body = wire::get(port, "/json/list", ANSWER).map_err(|error| refused(&error))?;
    let targets: Vec<Target> = parse(&body)?;
    let url = targets
        .into_iter()
        .find_map(|target| target.web_socket_debugger_url);
    // Only the path is used: the address is the one that was checked.
    let path = url.as_deref().and_then(path_of);
    let path = path.ok_or_else(|| Error::Refused("the inspector lists no program".into()))?;
    Session::connect(port, path, ANSWER)
}

/// `ws://127.0.0.1:9229/86d5f4cd-b569`: `/86d5f4cd-b569`
fn path_of(url: &str) -> Option<&str> {
    let path = url.strip_prefix("ws://")?;
    let path = &path[path.find('/')?..];
    path.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte))
        .then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_path_is_taken_from_a_url() {
        assert_eq!(
            path_of("ws://127.0.0.1:9229/86d5f4cd-b569"),
            Some("/86d5f4cd-b569")
        );
        assert_eq!(path_of("ws://127.0.0.1:9229/a\r\nX: y"), None);
        assert_eq!(path_of("ws://127.0.0.1:9229"), None);
        assert_eq!(path_of("http://a/b"), None);
    }
}

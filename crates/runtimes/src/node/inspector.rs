//! Opening the inspector of a running Node.js, and closing it again.
//!
//! An inspector that is there already is used and left open. Otherwise SIGUSR1 starts it. Nothing is sent to a port
//! before /proc has shown that the process itself listens on it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;

use super::options::{self, Options};
use super::process::{self, Exe};
use super::session::{Session, parse, refused};
use super::sockets::{self, Listener};
use super::{closing, signals, wire};
use crate::Error;

/// For an answer that takes the inspector's own thread a millisecond.
const ANSWER: Duration = Duration::from_secs(2);
/// From the signal until it listens: 30 ms on an idle machine; the main thread may be in a long call of C++ code.
const START: Duration = Duration::from_secs(5);
/// From asking it to close until the port is free.
const CLOSE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(10);
/// An inspector that is ours closes itself when highwater does not set its timer again for so long.
const CLOSES_AFTER: Duration = Duration::from_secs(90);
/// The timer is set so often while it runs: a busy main thread may miss some.
const SETS_PER_TIMEOUT: u32 = 3;

/// The inspector of one process. What this reader did to the process is kept through all failures.
pub struct Inspector {
    pid: u32,
    /// A pid may be given to another process; this is the one that was opened.
    process: OwnedFd,
    exe: Exe,
    /// What listened before SIGUSR1 was sent: the inspector that came after it is ours to close. `None`: not sent.
    before: Option<Vec<Listener>>,
    /// The one that SIGUSR1 opened.
    ours: Option<Listener>,
    session: Option<Session>,
    pub closes_after: Duration,
    /// Of Node.js: `20.20.2`; empty before the first session.
    pub version: String,
}

/// How the inspector of a process can be reached.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// The process listens on this port, on which its options place the inspector.
    Listens(u16),
    /// SIGUSR1 starts it on this port; zero: any.
    Signal(u16),
}

/// Finds the way. Only reads: whether what listens is an inspector is not asked.
pub fn way(pid: u32) -> Result<Way, Error> {
    let options = options::read(pid);
    match candidates(pid, &options).first() {
        Some(listener) => Ok(Way::Listens(listener.address.port())),
        None => way_by_signal(pid, &options).map(Way::Signal),
    }
}

/// The port on which SIGUSR1 would open the inspector. Whether the program handles the signal is read last, so that
/// little time passes before it is sent.
fn way_by_signal(pid: u32, options: &Options) -> Result<u16, Error> {
    match process::catches_usr1(pid) {
        None => return Err(Error::Gone),
        Some(false) => {
            return refuse(
                "SIGUSR1 would end this Node.js process: it has no handler for it; start it with \
                 --inspect=127.0.0.1:0",
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
    if let Some(host) = &options.remote_host {
        return refuse(&format!(
            "the options of the program would open its inspector on {host}, to the network: start it with \
             --inspect-port=127.0.0.1:0"
        ));
    }
    let port = options.port();
    let is_on_port = |listener: &Listener| listener.address.port() == port;
    if port != 0 && sockets::listeners(pid).iter().any(is_on_port) {
        return refuse(&format!(
            "port {port}, on which Node.js would open its inspector, is taken by another socket: free it, or start \
             the program with --inspect-port=0"
        ));
    }
    match signals::handles_usr1(pid) {
        Some(false) => Ok(port),
        Some(true) => refuse(
            "the program handles SIGUSR1 itself, so the signal would not open its inspector: start it with \
             --inspect=127.0.0.1:0",
        ),
        None => refuse(
            "whether the program handles SIGUSR1 itself is not known (its Node.js has no symbols, or its memory may \
             not be read), so highwater does not send it: start the program with --inspect=127.0.0.1:0",
        ),
    }
}

fn refuse<T>(why: &str) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

/// Where an inspector may listen that was there before: only ports that the options name, since a request to any other
/// would reach a service. Of a free port nothing is known but that it was opened before the program's own.
fn candidates(pid: u32, options: &Options) -> Vec<Listener> {
    let expected = options.port();
    let is_candidate = |listener: &Listener| match expected {
        0 => options.on && (listener.address.ip().is_loopback() || options.remote_host.is_some()),
        port => listener.address.port() == port,
    };
    let mut own = sockets::own_listeners(pid);
    own.retain(|listener| listener.local().is_some() && is_candidate(listener));
    own
}

/// Of the inspector at this address.
fn version(address: SocketAddr) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "Browser")]
        browser: String,
    }
    let body = wire::get(address, "/json/version", ANSWER).map_err(|error| refused(&error))?;
    let version: Version = parse(&body)?;
    let version = version.browser.strip_prefix("node.js/v");
    version
        .map(str::to_owned)
        .ok_or_else(|| Error::Refused(format!("{address} is not an inspector of Node.js")))
}

impl Inspector {
    /// Only reads; `None` where the process is not Node.js.
    pub fn new(pid: u32) -> Option<Result<Inspector, Error>> {
        let process = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
        if !process::is_node(pid) {
            return None;
        }
        let exe = process::exe(pid).ok_or(Error::Denied);
        Some(exe.map(|exe| Inspector {
            pid,
            process,
            exe,
            before: None,
            ours: None,
            session: None,
            closes_after: CLOSES_AFTER,
            version: String::new(),
        }))
    }

    /// Opens the inspector if necessary, and attaches.
    pub fn session(&mut self) -> Result<&mut Session, Error> {
        if self.session.is_none() {
            self.attach()?;
        }
        self.session.as_mut().ok_or(Error::Gone)
    }

    fn attach(&mut self) -> Result<(), Error> {
        if process::has_ended(&self.process) {
            return Err(Error::Gone);
        }
        let address = match self.find_open()? {
            Some(address) => address,
            None => self.start()?,
        };
        let mut session = connect(address)?;
        if self.before.is_some() {
            let expression = closing::later(self.closes_after);
            session.evaluate(&expression, ANSWER)?;
            session.repeat(&expression, self.closes_after / SETS_PER_TIMEOUT)?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Sets the timer anew that closes an inspector of ours.
    pub fn renew(&mut self) -> Result<(), Error> {
        let expression = closing::later(self.closes_after);
        match &mut self.session {
            Some(session) if self.before.is_some() => {
                session.evaluate(&expression, ANSWER).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The address of an inspector that listens now.
    fn find_open(&mut self) -> Result<Option<SocketAddr>, Error> {
        if self.before.is_some() {
            return self.find_ours(&mut Vec::new());
        }
        let candidates = candidates(self.pid, &options::read(self.pid));
        let Some(first) = candidates.first() else {
            return Ok(None);
        };
        let mut addresses = candidates.iter().filter_map(Listener::local);
        let found = addresses.find(|address| self.is_inspector(*address));
        found.map(Some).ok_or_else(|| {
            Error::Refused(format!(
                "port {} is taken by a socket of the program that is not the inspector which its options place there: \
                 start it with --inspect=127.0.0.1:0",
                first.address.port()
            ))
        })
    }

    fn is_inspector(&mut self, address: SocketAddr) -> bool {
        version(address)
            .map(|version| self.version = version)
            .is_ok()
    }

    /// The inspector that SIGUSR1 opened: a program may have set `process.debugPort`, so it is looked for among all
    /// sockets that are new. Each is `asked` once.
    fn find_ours(&mut self, asked: &mut Vec<Listener>) -> Result<Option<SocketAddr>, Error> {
        let own = sockets::own_listeners(self.pid);
        if let Some(ours) = self.ours.filter(|ours| own.contains(ours)) {
            return Ok(ours.local());
        }
        let before = self.before.as_deref().unwrap_or_default();
        let is_new = |listener: &Listener| !before.contains(listener) && !asked.contains(listener);
        let mut new: Vec<Listener> = own.into_iter().filter(is_new).collect();
        let expected = options::read(self.pid).port();
        new.sort_by_key(|listener| listener.address.port() != expected);
        for listener in new {
            asked.push(listener);
            if let Some(address) = listener.local().filter(|at| self.is_inspector(*at)) {
                self.ours = Some(listener);
                return if listener.address.ip().is_loopback() {
                    Ok(Some(address))
                } else {
                    refuse(&format!(
                        "Node.js opened its inspector on {address}, to the network"
                    ))
                };
            }
        }
        Ok(None)
    }

    /// Sends SIGUSR1, once, and waits until the inspector listens.
    fn start(&mut self) -> Result<SocketAddr, Error> {
        if self.before.is_none() {
            let before = sockets::own_listeners(self.pid);
            // The process may have started another program since it was opened; its pid stays.
            if !process::is_node(self.pid) || process::exe(self.pid) != Some(self.exe) {
                return refuse("the process runs another program than when it was opened");
            }
            way_by_signal(self.pid, &options::read(self.pid))?;
            let sent = pidfd_send_signal(&self.process, Signal::USR1);
            sent.map_err(|errno| match errno {
                rustix::io::Errno::PERM => Error::Denied,
                _ => Error::Gone,
            })?;
            self.before = Some(before);
        }
        self.wait_for_ours(START)?.ok_or_else(|| {
            Error::Refused(
                "Node.js got SIGUSR1 and opened no inspector in 5 s: its main thread is busy outside JavaScript. The \
                 inspector may still open later"
                    .into(),
            )
        })
    }

    fn wait_for_ours(&mut self, within: Duration) -> Result<Option<SocketAddr>, Error> {
        let until = Instant::now() + within;
        let mut asked = Vec::new();
        loop {
            let found = self.find_ours(&mut asked)?;
            if found.is_some() || Instant::now() > until || process::has_ended(&self.process) {
                return Ok(found);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Detaches, and closes the inspector if SIGUSR1 had started it: attaches again if that is necessary.
    pub fn close(&mut self) -> Result<(), Error> {
        let session = self.session.take();
        if self.before.is_none() {
            return Ok(());
        }
        let closed = self.close_ours(session);
        if closed.is_ok() || process::has_ended(&self.process) {
            (self.before, self.ours) = (None, None);
            return Ok(());
        }
        closed
    }

    fn close_ours(&mut self, session: Option<Session>) -> Result<(), Error> {
        if self.ours.is_none() {
            // An inspector on a network is found, too.
            let _ = self.wait_for_ours(CLOSE);
        }
        let Some(ours) = self.ours else {
            return refuse(
                "Node.js got SIGUSR1 and has not opened its inspector yet: it may still open it, on a port of \
                 127.0.0.1, and leave it open",
            );
        };
        let asked = session.and_then(|mut session| session.evaluate(&closing::soon(), ANSWER).ok());
        if asked.is_none() && self.is_open(ours) {
            let address = ours.local().ok_or(Error::Gone)?;
            let again = connect(address)
                .and_then(|mut session| session.evaluate(&closing::soon(), ANSWER).map(drop));
            again.map_err(|error| still_open(ours, &error.to_string()))?;
        }
        let until = Instant::now() + CLOSE;
        while self.is_open(ours) {
            if Instant::now() > until {
                let why = "its main thread is busy, or another debugger is attached";
                return Err(still_open(ours, why));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn is_open(&self, listener: Listener) -> bool {
        sockets::own_listeners(self.pid).contains(&listener)
    }
}

fn still_open(listener: Listener, why: &str) -> Error {
    Error::Refused(format!(
        "the inspector of Node.js still listens on {}: {why}",
        listener.address
    ))
}

/// The first target is the program; others are its worker threads.
fn connect(address: SocketAddr) -> Result<Session, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Target {
        web_socket_debugger_url: Option<String>,
    }
    let body = wire::get(address, "/json/list", ANSWER).map_err(|error| refused(&error))?;
    let targets: Vec<Target> = parse(&body)?;
    let url = targets
        .into_iter()
        .find_map(|target| target.web_socket_debugger_url);
    // Only the path is used: the address is the one that was checked.
    let path = url.as_deref().and_then(path_of);
    let path = path.ok_or_else(|| Error::Refused("the inspector lists no program".into()))?;
    Session::connect(address, path, ANSWER)
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

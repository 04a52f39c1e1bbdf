//! Opens a connection to the attach listener of a JVM, and has the JVM start it where it does not run yet.
//!
//! ```text
//! /tmp/.java_pidN there? -- no --> create /tmp/.attach_pidN, send SIGQUIT, wait for the socket, remove the file
//!        |  yes                                                                     |
//!        '-------------------------> check its owner and peer, connect <------------'
//! ```
//!
//! To a process that does not expect it SIGQUIT is harmful: without a handler it ends the process, and a JVM that may
//! not be attached to prints a thread dump. So the signal is sent only when the process still runs the program that was
//! opened, has a handler, *and* the JVM's counters or flags say that it accepts connections.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, fstat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::counters::parse_counters;
use super::flags::read_flag;
use super::target::{Mapped, NAME_ONLY, Status, Target, by_descriptor, refused};
use super::trigger::Trigger;
use crate::Error;

/// A JVM that is in a long collection starts the listener only after it, and one that finds the trigger file gone by
/// then prints a thread dump. As long as the JDK's own tools wait.
const LISTENER_WAIT: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(20);

/// A connection, whose other end is the JVM itself.
pub(super) fn connect(target: &Target, deadline: Instant) -> Result<OwnedFd, Error> {
    let status = target.status()?;
    may_attach(&status)?;
    let tmp = target.tmp()?;
    let socket = match find_socket(&tmp, &status)? {
        Some(socket) => socket,
        None => start_listener(target, &tmp, deadline)?,
    };
    let connection = connect_to(&socket, deadline)?;
    check_peer(target, &connection)?;
    Ok(connection)
}

/// HotSpot serves its own user and group, and root since JDK 11.
fn may_attach(status: &Status) -> Result<(), Error> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    if user == 0 || (user, group) == (status.uid, status.gid) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a JVM serves only its own user and group ({}:{}) and root: run highwater as one of them",
        status.uid, status.gid
    )))
}

fn find_socket(tmp: &OwnedFd, status: &Status) -> Result<Option<OwnedFd>, Error> {
    let name = format!(".java_pid{}", status.inner_pid);
    let socket = match openat(tmp, &name, NAME_ONLY, Mode::empty()) {
        Ok(socket) => socket,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(refused(&format!("/tmp/{name} cannot be opened"), errno)),
    };
    let about =
        fstat(&socket).map_err(|errno| refused(&format!("/tmp/{name} cannot be read"), errno))?;
    let is_socket = FileType::from_raw_mode(about.st_mode) == FileType::Socket;
    if !is_socket || about.st_uid != status.uid {
        return Err(Error::Refused(format!(
            "/tmp/{name} is not a socket of the JVM's user, so it is left alone"
        )));
    }
    Ok(Some(socket))
}

/// Has the JVM start its listener. Returns the socket.
///
/// A second SIGQUIT when the listener already runs prints a thread dump. So the signal is left to the tool that owns
/// the trigger file, and a socket that has appeared by the time that the file is ours is used: every tool removes its
/// file only after the socket is there.
fn start_listener(target: &Target, tmp: &OwnedFd, deadline: Instant) -> Result<OwnedFd, Error> {
    may_be_signalled(target)?;
    let status = target.status()?;
    let Some(_trigger) = Trigger::create(tmp, &status)? else {
        return wait_for_other_tool(target, tmp, deadline);
    };
    if let Some(socket) = find_socket(tmp, &status)? {
        return Ok(socket);
    }
    // Again, now that nothing is left to do before the signal: it may run another program meanwhile.
    may_be_signalled(target)?;
    target.send_quit()?;
    wait_for_socket(target, tmp, Instant::now() + LISTENER_WAIT)?.ok_or_else(|| {
        Error::Refused(format!(
            "the JVM did not open its attach socket within {LISTENER_WAIT:?}; it may be in a long collection: try again"
        ))
    })
}

/// Never signals: whether the other tool has done so is unknown.
fn wait_for_other_tool(
    target: &Target,
    tmp: &OwnedFd,
    deadline: Instant,
) -> Result<OwnedFd, Error> {
    let end = deadline.min(Instant::now() + LISTENER_WAIT);
    let inner_pid = target.status()?.inner_pid;
    wait_for_socket(target, tmp, end)?.ok_or_else(|| {
        Error::Refused(format!(
            "another tool is attaching to it, and the attach socket did not appear; if no such tool runs, remove \
             /tmp/.attach_pid{inner_pid} and try again"
        ))
    })
}

fn wait_for_socket(target: &Target, tmp: &OwnedFd, end: Instant) -> Result<Option<OwnedFd>, Error> {
    loop {
        let socket = find_socket(tmp, &target.status()?)?;
        if socket.is_some() || Instant::now() >= end {
            return Ok(socket);
        }
        std::thread::sleep(POLL);
    }
}

/// That SIGQUIT starts the listener, and does nothing else. The handler is checked last: a program that the process
/// starts to run has none.
fn may_be_signalled(target: &Target) -> Result<(), Error> {
    let mapped = target.mapped()?;
    target.check_same_program(&mapped)?;
    match accepts_attach(target, &mapped)? {
        Some(true) => {}
        Some(false) => {
            return Err(Error::Refused(
                "the JVM was started with -XX:+DisableAttachMechanism: restart it without that to see its types".into(),
            ));
        }
        None => {
            return Err(Error::Refused(
                "whether the JVM accepts an attach request is unknown, so it is not signalled; run \
                 `jcmd PID VM.version` once and try again"
                    .into(),
            ));
        }
    }
    let status = target.status()?;
    if !status.catches_quit() {
        return Err(Error::Refused(
            "the JVM has no handler for SIGQUIT (-Xrs, or it is still starting), and the signal would end it".into(),
        ));
    }
    if status.is_stopped() {
        return Err(Error::Refused(
            "the process is stopped by a signal or a debugger: continue it first".into(),
        ));
    }
    Ok(())
}

/// By its counters, or its flag where it keeps no counters.
fn accepts_attach(target: &Target, mapped: &Mapped) -> Result<Option<bool>, Error> {
    let counters = target
        .read_counters(mapped)?
        .as_deref()
        .and_then(parse_counters);
    if let Some(counters) = counters {
        return Ok(Some(counters.allows_attach()));
    }
    let memory = target.memory()?;
    let flag = |base| read_flag(&memory, base, "DisableAttachMechanism");
    Ok(mapped.libjvm.and_then(flag).map(|is_disabled| !is_disabled))
}

/// Does not block: a full backlog of a peer that accepts nothing would hold up a blocking connect for ever.
fn connect_to(socket: &OwnedFd, deadline: Instant) -> Result<OwnedFd, Error> {
    let refused = |errno| refused("the JVM's attach socket refused a connection", errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(refused)?;
    let address = SocketAddrUnix::new(by_descriptor(socket)).map_err(refused)?;
    loop {
        match rustix::net::connect(&connection, &address) {
            Ok(()) => return Ok(connection),
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(POLL)
            }
            Err(errno) => return Err(refused(errno)),
        }
    }
}

/// The kernel keeps the pid that called listen(2), and translates it into our namespace.
fn check_peer(target: &Target, connection: &OwnedFd) -> Result<(), Error> {
    let peer = rustix::net::sockopt::socket_peercred(connection)
        .map_err(|errno| refused("the peer of the attach socket is unknown", errno))?;
    // The pid is still the target's: reading its status through the open folder fails when it has ended.
    target.status()?;
    if u32::try_from(peer.pid.as_raw_nonzero().get()) == Ok(target.pid) {
        return Ok(());
    }
    Err(Error::Refused(
        "another process than the JVM listens on its attach socket, so nothing is asked".into(),
    ))
}

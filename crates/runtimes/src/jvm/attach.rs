//! Opens a connection to the attach listener of a JVM, and has the JVM start it where it does not run yet.
//!
//! ```text
//! /tmp/.java_pidN there? -- no --> create /tmp/.attach_pidN, send SIGQUIT, wait for the socket, remove the file
//!        |  yes                                                                     |
//!        '-------------------------> check its owner and peer, connect <------------'
//! ```
//!
//! To a process that does not expect it SIGQUIT is harmful: without a handler it ends the process, and a JVM that may
//! not be attached to prints a thread dump. So the signal is sent only when the process has a handler *and* the JVM's
//! counters or flags say that it accepts connections.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::counters::parse_counters;
use super::flags::read_flag;
use super::target::{NAME_ONLY, Status, Target, by_descriptor};
use crate::Error;

/// A JVM that is in a long collection starts the listener only after it, and one that finds the trigger file gone by
/// then prints a thread dump. As long as the JDK's own tools wait.
const LISTENER_WAIT: Duration = Duration::from_secs(10);

/// For a trigger file that another tool created: it signals the JVM itself, unless it was killed.
const OTHER_TOOL_WAIT: Duration = Duration::from_secs(2);

const POLL: Duration = Duration::from_millis(20);

/// A connection, whose other end is the JVM itself.
pub(super) fn connect(target: &Target, deadline: Instant) -> Result<OwnedFd, Error> {
    let status = target.status()?;
    may_attach(&status)?;
    let tmp = target.tmp()?;
    let socket = match find_socket(&tmp, &status)? {
        Some(socket) => socket,
        None => start_listener(target, &tmp)?,
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
fn start_listener(target: &Target, tmp: &OwnedFd) -> Result<OwnedFd, Error> {
    may_be_signalled(target)?;
    let status = target.status()?;
    let trigger = Trigger::create(tmp, &status)?;
    let wait = if trigger.is_ours {
        Duration::ZERO
    } else {
        OTHER_TOOL_WAIT
    };
    if let Some(socket) = wait_for_socket(target, tmp, wait)? {
        return Ok(socket);
    }
    target.send_quit()?;
    wait_for_socket(target, tmp, LISTENER_WAIT)?.ok_or_else(|| {
        Error::Refused(format!(
            "the JVM did not open its attach socket within {LISTENER_WAIT:?}; it may be in a long collection: try again"
        ))
    })
}

fn wait_for_socket(
    target: &Target,
    tmp: &OwnedFd,
    most: Duration,
) -> Result<Option<OwnedFd>, Error> {
    let end = Instant::now() + most;
    loop {
        let socket = find_socket(tmp, &target.status()?)?;
        if socket.is_some() || Instant::now() >= end {
            return Ok(socket);
        }
        std::thread::sleep(POLL);
    }
}

/// That SIGQUIT starts the listener, and does nothing else.
fn may_be_signalled(target: &Target) -> Result<(), Error> {
    match accepts_attach(target)? {
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
fn accepts_attach(target: &Target) -> Result<Option<bool>, Error> {
    let mapped = target.mapped()?;
    let counters = target
        .read_counters(&mapped)?
        .as_deref()
        .and_then(parse_counters);
    if let Some(counters) = counters {
        return Ok(Some(counters.allows_attach()));
    }
    let flag = |base| read_flag(target.pid, base, "DisableAttachMechanism");
    Ok(mapped.libjvm.and_then(flag).map(|is_disabled| !is_disabled))
}

/// The file that makes a JVM take SIGQUIT for an attach request; removed when dropped.
struct Trigger<'a> {
    tmp: &'a OwnedFd,
    name: String,
    /// Another tool's file is used, and left to it.
    is_ours: bool,
}

impl Trigger<'_> {
    fn create<'a>(tmp: &'a OwnedFd, status: &Status) -> Result<Trigger<'a>, Error> {
        let name = format!(".attach_pid{}", status.inner_pid);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(tmp, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file,
            Err(Errno::EXIST) => return Trigger::found(tmp, name, status),
            Err(errno) => return Err(refused(&format!("/tmp/{name} cannot be created"), errno)),
        };
        let trigger = Trigger {
            tmp,
            name,
            is_ours: true,
        };
        let about =
            fstat(&file).map_err(|errno| refused("the trigger file cannot be read", errno))?;
        if about.st_uid != status.uid {
            let ids = (Uid::from_raw(status.uid), Gid::from_raw(status.gid));
            fchown(&file, Some(ids.0), Some(ids.1)).map_err(|errno| {
                refused("the trigger file cannot be given to the JVM's user", errno)
            })?;
        }
        Ok(trigger)
    }

    /// Of a tool that is attaching now, or one that was killed. The JVM ignores the file of an unrelated user.
    fn found<'a>(tmp: &'a OwnedFd, name: String, status: &Status) -> Result<Trigger<'a>, Error> {
        let is_valid = |about: Stat| about.st_uid == status.uid || about.st_uid == 0;
        match statat(tmp, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) if is_valid(about) => Ok(Trigger {
                tmp,
                name,
                is_ours: false,
            }),
            _ => Err(Error::Refused(format!(
                "/tmp/{name} belongs to another user: remove it first"
            ))),
        }
    }
}

impl Drop for Trigger<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            // It can only be gone already.
            let _ = unlinkat(self.tmp, &self.name, AtFlags::empty());
        }
    }
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

fn refused(what: &str, errno: Errno) -> Error {
    Error::Refused(format!("{what}: {errno}"))
}

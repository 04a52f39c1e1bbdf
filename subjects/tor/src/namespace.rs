//! A network of its own, with nothing but the loopback interface: no route leads out, and no port clashes with anybody.
//!
//! Without the right to make one, a user namespace comes with it, in which everybody keeps their own user id. It lives
//! as long as a process is in it, and others join it by the pid of one that is.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Moves this process (which must have one thread) into a new network, and switches the loopback interface on.
///
/// # Errors
/// When the kernel allows neither; with what to do.
pub fn create() -> Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    match unshare(UnshareFlags::NEWNET) {
        Err(Errno::PERM) => {
            unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUSER).context(
                "this user may make no network namespace: run as root, or allow user namespaces \
                 (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, or \
                 kernel.apparmor_restrict_unprivileged_userns)",
            )?;
            let (user, group) = (user.as_raw(), group.as_raw());
            write_map("setgroups", "deny")?;
            write_map("uid_map", &format!("{user} {user} 1"))?;
            write_map("gid_map", &format!("{group} {group} 1"))?;
        }
        other => other.context("making a network namespace")?,
    }
    switch_loopback_on().context("switching the loopback interface on")?;
    check_isolated("/proc/self/net/dev".as_ref())
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the descriptors stay shared; only namespaces are left.
    unsafe { unshare_unsafe(flags) }
}

fn write_map(name: &str, text: &str) -> Result<()> {
    let file = format!("/proc/self/{name}");
    fs::write(&file, text).with_context(|| format!("writing {text:?} to {file}"))
}

/// Moves this process (which must have one thread) into the network that the process `pid` is in.
///
/// # Errors
/// When that process is gone, or is another user's.
pub fn join(pid: i32) -> Result<()> {
    let is_same = |kind: &str| -> io::Result<bool> {
        let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{kind}"));
        Ok(of("self")? == of(&pid.to_string())?)
    };
    let gone = || format!("the private network is gone: its process {pid} cannot be joined");
    if !is_same("user").with_context(gone)? {
        enter(pid, "user", LinkNameSpaceType::User)?;
    }
    enter(pid, "net", LinkNameSpaceType::Network)?;
    check_isolated("/proc/self/net/dev".as_ref())
}

fn enter(pid: i32, kind: &str, space: LinkNameSpaceType) -> Result<()> {
    let path = format!("/proc/{pid}/ns/{kind}");
    let file = File::open(&path).with_context(|| path.clone())?;
    move_into_link_name_space(file.as_fd(), Some(space)).with_context(|| format!("joining {path}"))
}

/// # Errors
/// When there is an interface other than loopback: something could leave.
pub fn check_isolated(devices: &Path) -> Result<()> {
    let text = fs::read_to_string(devices).with_context(|| devices.display().to_string())?;
    let names = parse_interfaces(&text);
    ensure!(
        names == ["lo"],
        "the network should have the loopback interface only; {} shows {}",
        devices.display(),
        names.join(", ")
    );
    Ok(())
}

/// Names of the interfaces in /proc/net/dev.
pub fn parse_interfaces(text: &str) -> Vec<&str> {
    let named = text.lines().filter_map(|line| line.split_once(':'));
    named.map(|(name, _)| name.trim()).collect()
}

fn switch_loopback_on() -> io::Result<()> {
    // SAFETY: plain system calls; the request is zeroed, holds a name that ends in NUL, and outlives both.
    unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(raw);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_real_table() {
        // /proc/net/dev of Linux 6.1, Debian 12, cut to the first columns.
        let text = "Inter-|   Receive                            |  Transmit\n \
                    face |bytes    packets errs drop|bytes    packets\n    \
                    lo: 1296     16    0    0     1296      16\n  \
                    eth0: 913481  1011    0    0   77121     690\n";
        assert_eq!(parse_interfaces(text), ["lo", "eth0"]);
        assert!(parse_interfaces("").is_empty());
    }
}

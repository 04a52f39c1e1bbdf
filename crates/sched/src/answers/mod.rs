//! Requests as the process's own connections have them: from the arrival of the first bytes to the first byte of the
//! answer. Root alone, Linux 6.3 and later; HTTP/1, Redis, Postgres, or whatever else has one answer for one request on
//! a connection at a time, over TCP or a Unix socket.
//!
//! What several requests on one connection at a time (HTTP/2) take is not told apart: the first bytes of any answer end
//! the oldest. What io_uring receives has no descriptor, and is told of connections that were made during the watch.

mod layout;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use bpf::kernel::Tracing;
use bpf::map::{Array, Hash, Ring, begins_with};
use bpf::object::{self, Object};
use bytemuck::Zeroable;

use self::layout::{Answer, CLIENT, Connection, SERVER, UNKNOWN};
use crate::descriptors::Descriptors;
use crate::ebpf::{PROG_TYPE_TRACEPOINT, attach, format_of};
use crate::pace::Pace;

/// Of connections of all processes, by 100 bytes or so in the kernel.
const CONNECTIONS_MAX: u32 = 16_384;
/// 8,000 answers between two turns of 40 ms: more a second than are let come.
const RING_BYTES: u32 = 512 << 10;
/// Answers kept; 40 bytes each.
pub const ANSWERED_MAX: usize = 200_000;
/// Connections of which it is remembered who opened them.
const ROLES_MAX: usize = 8_192;

/// A request on one connection. Times are CLOCK_MONOTONIC, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub arrived_ns: u64,
    pub received_ns: u64,
    pub answered_ns: u64,
    /// Threads.
    pub receiver: u32,
    pub sender: u32,
}

pub struct Answers {
    ring: Ring,
    connections: Hash<u64, Connection>,
    limits: Array,
    short: Array,
    lost: Array,
    pace: Pace,
    descriptors: Descriptors,
    /// Whether a client opened it, of connections that were there before.
    roles: HashMap<u64, bool>,
    programs: Vec<OwnedFd>,
    _attached: Vec<OwnedFd>,
}

impl Answers {
    /// Watches the connections of `pid`.
    ///
    /// # Errors
    /// The kernel has no such tracepoints (before Linux 6.3), or refuses the programs.
    pub fn attach(pid: u32) -> io::Result<Answers> {
        let tracing = Tracing::open()?;
        let format = |name: &str| match format_of(&tracing, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(io::Error::other(
                "the kernel does not tell of them (Linux 6.3 and later do)",
            )),
            other => other,
        };
        let mut object = Object::parse(object::requests())?;
        object.set("PID", pid);
        object.view(layout::length_event(&format("sock/sock_recv_length")?)?);
        object.view(layout::ready_event(&format("sock/sk_data_ready")?)?);
        object.view(layout::state_event(&format("sock/inet_sock_set_state")?)?);
        object.view(layout::registers());
        let connections = Hash::create_lru(&mut object, "connections", CONNECTIONS_MAX)?;
        let ring = Ring::create(&mut object, "ring", RING_BYTES)?;
        let limits = Array::create(&mut object, "limits")?;
        let short = Array::create(&mut object, "short_answers")?;
        let lost = Array::create(&mut object, "lost")?;
        let (mut held, mut programs) = (Vec::new(), Vec::new());
        // What receives comes last: before it nothing is answered.
        for (tracepoint, name) in [
            ("sock/inet_sock_set_state", "on_state"),
            ("sock/sk_data_ready", "on_ready"),
            ("sock/sock_send_length", "on_send"),
            ("sock/sock_recv_length", "on_receive"),
        ] {
            let program = object.load(name, (PROG_TYPE_TRACEPOINT, 0))?;
            held.extend(attach(&tracing, tracepoint, &program)?);
            programs.push(program);
        }
        Ok(Answers {
            ring,
            connections,
            limits,
            short,
            lost,
            pace: Pace::default(),
            descriptors: Descriptors::of(pid),
            roles: HashMap::new(),
            programs,
            _attached: held,
        })
    }

    /// The programs, for whoever times them.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn programs(&self) -> io::Result<Vec<OwnedFd>> {
        self.programs.iter().map(OwnedFd::try_clone).collect()
    }

    /// What was answered since the last call. Short answers are left out in the kernel while there are too many.
    pub fn drain(&mut self, now_ns: u64) -> Vec<Told> {
        let mut came = Vec::new();
        self.ring.drain(|bytes| {
            came.extend(begins_with::<Answer>(bytes).map(|(answer, _)| answer));
        });
        self.pace.came(came.len() as u64);
        if let Some(limit_ns) = self.pace.adapt(now_ns) {
            self.limits.write(0, limit_ns);
        }
        came.retain(|answer| self.is_for_a_client(answer));
        came.iter().map(told).collect()
    }

    /// Answers that took so short that they were counted alone, and those that were lost.
    pub fn uncounted(&self) -> (u64, u64) {
        (self.short.read(0), self.lost.read(0))
    }

    /// Who opened it: known of a connection that was made during the watch, asked of any other.
    fn is_for_a_client(&mut self, answer: &Answer) -> bool {
        if answer.role != UNKNOWN {
            return answer.role == SERVER;
        }
        if let Some(known) = self.roles.get(&answer.connection) {
            return *known;
        }
        let descriptor = i32::try_from(answer.descriptor).ok();
        let Some(takes) = descriptor.and_then(|fd| self.descriptors.takes_requests(fd)) else {
            return false;
        };
        if !takes {
            let opened = Connection {
                role: CLIENT,
                ..Connection::zeroed()
            };
            self.connections.put(answer.connection, opened);
        }
        if self.roles.len() >= ROLES_MAX {
            self.roles.clear();
        }
        self.roles.insert(answer.connection, takes);
        takes
    }
}

fn told(answer: &Answer) -> Told {
    Told {
        arrived_ns: answer.arrived_ns,
        received_ns: answer.received_ns.max(answer.arrived_ns),
        answered_ns: answer.answered_ns.max(answer.received_ns),
        receiver: answer.receiver,
        sender: answer.sender,
    }
}

//! Requests as the process's own connections have them: from the arrival of the first bytes to the first byte of the
//! answer; and the replies to what it asks of others itself. Root alone, Linux 6.3 and later; HTTP/1, Redis, Postgres,
//! or whatever else has one answer for one request on a connection at a time, over TCP or a Unix socket.
//!
//! Several requests on one connection at a time (HTTP/2) are not distinguished: the first bytes of any answer end the
//! oldest. What io_uring receives has no descriptor, and is told of connections that were made during the watch.

mod layout;
mod pauses;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use bpf::kernel::{PROG_TYPE_RAW_TRACEPOINT, Tracing, attach_raw};
use bpf::map::{Array, Hash, Ring, begins_with};
use bpf::object::{self, Object};
use bpf::timed::Programs;
use bytemuck::Zeroable;

use self::layout::{Answer, CLIENT, Connection, NEITHER, SERVER};
use self::pauses::Pauses;
use crate::descriptors::{Descriptors, Kind};
use crate::ebpf::format_of;
use crate::pace::Pace;
use crate::requests::Unseen;
use crate::time::now_ns;

/// Of connections of all processes, by 100 bytes or so in the kernel.
const CONNECTIONS_MAX: u32 = 16_384;
/// 8,000 answers between two turns of 40 ms: more a second than are let come.
const RING_BYTES: u32 = 512 << 10;
/// Connections of which it is remembered who opened them.
const SIDES_MAX: usize = 8_192;
/// Descriptors that are looked up in one turn; each takes some ten microseconds.
const ASKED_MAX: usize = 64;

/// What the process is on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// A client opened it.
    Server,
    Client,
    /// Or it is not known.
    Neither,
}

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

/// A reply on a connection that the process opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replied {
    /// The last bytes of what was asked left.
    pub asked_ns: u64,
    /// The first byte of the reply was received.
    pub replied_ns: u64,
    /// The thread that received it.
    pub receiver: u32,
    /// The peer's address, with the port.
    pub peer: String,
}

pub struct Answers {
    ring: Ring,
    connections: Hash<u64, Connection>,
    limits: Array,
    short: Array,
    lost: Array,
    pace: Pace,
    takes_more: Array,
    paused: Pauses,
    descriptors: Descriptors,
    /// Of connections that were there before, by their descriptors too.
    sides: HashMap<(u64, u32), Side>,
    /// Of connections that it opened during the watch: with whom.
    peers: HashMap<u64, String>,
    /// Descriptors that were looked up in this turn.
    asked: usize,
    /// That came so far.
    answers: u64,
    /// Newer than what was asked for.
    held: Vec<Told>,
    held_replies: Vec<Replied>,
    /// What they take is timed.
    pub programs: Programs,
    /// They run for as long as these are open.
    attached: Vec<OwnedFd>,
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
        bpf::registers::prepare(&mut object)?;
        let connections = Hash::create_lru(&mut object, "connections", CONNECTIONS_MAX)?;
        let ring = Ring::create(&mut object, "ring", RING_BYTES)?;
        let limits = Array::create(&mut object, "limits")?;
        let short = Array::create(&mut object, "short_answers")?;
        let lost = Array::create(&mut object, "lost")?;
        let takes_more = Array::create(&mut object, "takes_more")?;
        takes_more.write(0, 1);
        let (mut held, mut programs) = (Vec::new(), Vec::new());
        for tracepoint in layout::TRACEPOINTS {
            tracepoint.check(&format(&format!("sock/{}", tracepoint.name))?)?;
            let program = object.load(tracepoint.program, (PROG_TYPE_RAW_TRACEPOINT, 0))?;
            held.push(attach_raw(tracepoint.name, &program)?);
            programs.push(program);
        }
        Ok(Answers {
            ring,
            connections,
            limits,
            short,
            lost,
            pace: Pace::default(),
            takes_more,
            paused: Pauses::begin(now_ns()),
            descriptors: Descriptors::of(pid),
            sides: HashMap::new(),
            peers: HashMap::new(),
            asked: 0,
            answers: 0,
            held: Vec::new(),
            held_replies: Vec::new(),
            programs: Programs::new(programs),
            attached: held,
        })
    }

    /// Nothing is told any more.
    pub fn take_off(&mut self, now_ns: u64) {
        if self.is_on() {
            self.attached.clear();
            self.programs.end(now_ns);
            self.paused.end(now_ns);
        }
    }

    pub fn is_on(&self) -> bool {
        !self.attached.is_empty()
    }

    /// What was not told.
    pub fn unseen(&self, now_ns: u64) -> Unseen {
        let (short, lost) = self.uncounted();
        Unseen {
            uncounted: short + lost,
            share: 1.0 - self.paused.share_on(now_ns),
        }
    }

    /// What was answered since the last call, up to `until_ns`. While there are too many, short answers are left out in
    /// the kernel.
    pub fn drain(&mut self, now_ns: u64, until_ns: u64) -> Vec<Told> {
        let mut came = Vec::new();
        self.ring.drain(|bytes| {
            came.extend(begins_with::<Answer>(bytes).map(|(answer, _)| answer));
        });
        self.pace.came(came.len() as u64);
        if let Some(limit_ns) = self.pace.adapt(now_ns) {
            self.limits.write(0, limit_ns);
        }
        let (short, lost) = self.uncounted();
        self.answers += came.len() as u64;
        if self.is_on()
            && let Some(takes_more) = self.paused.turn(self.answers + short + lost, now_ns)
        {
            self.takes_more.write(0, takes_more.into());
        }
        self.asked = 0;
        for answer in &came {
            match (answer.received_ns, self.side(answer)) {
                (0, Side::Client) if answer.answered_ns == 0 => self.learn_peer(answer),
                (0, Side::Client) => {
                    let reply = self.reply(answer);
                    self.held_replies.extend(reply);
                }
                (1.., Side::Server) => self.held.extend(told(answer)),
                _ => {}
            }
        }
        let due = |told: &mut Told| told.answered_ns <= until_ns;
        self.held.extract_if(.., due).collect()
    }

    /// The replies of what was drained, up to `until_ns`.
    pub fn replies(&mut self, until_ns: u64) -> Vec<Replied> {
        let due = |reply: &mut Replied| reply.replied_ns <= until_ns;
        self.held_replies.extract_if(.., due).collect()
    }

    fn reply(&mut self, answer: &Answer) -> Option<Replied> {
        let known = self.peers.get(&answer.connection).cloned();
        let peer = known.or_else(|| self.peer(answer.descriptor));
        (answer.arrived_ns <= answer.answered_ns).then_some(Replied {
            asked_ns: answer.arrived_ns,
            replied_ns: answer.answered_ns,
            receiver: answer.receiver,
            // Closed since, or a socket of this machine.
            peer: peer.unwrap_or_else(|| "a peer".to_owned()),
        })
    }

    /// By its descriptor, while that is open.
    fn peer(&mut self, descriptor: u32) -> Option<String> {
        let peer = self.descriptors.describe(i32::try_from(descriptor).ok()?);
        (peer.kind == Kind::Outbound).then_some(peer.name)
    }

    fn learn_peer(&mut self, begun: &Answer) {
        self.asked += 1;
        if self.peers.len() >= SIDES_MAX {
            self.peers.clear();
        }
        self.peers.remove(&begun.connection);
        let peer = (self.asked <= ASKED_MAX).then(|| self.peer(begun.descriptor));
        if let Some(peer) = peer.flatten() {
            self.peers.insert(begun.connection, peer);
        }
    }

    /// Answers that took so short that they were counted alone, and those that did not fit the ring.
    fn uncounted(&self) -> (u64, u64) {
        (self.short.read(0), self.lost.read(0))
    }

    /// Who opened it: known of a connection that was made during the watch, asked of any other.
    fn side(&mut self, answer: &Answer) -> Side {
        match answer.role {
            SERVER => return Side::Server,
            CLIENT => return Side::Client,
            _ => {}
        }
        let socket = (answer.connection, answer.descriptor);
        if let Some(known) = self.sides.get(&socket) {
            return *known;
        }
        self.asked += 1;
        let fd = i32::try_from(answer.descriptor).ok();
        let Some(fd) = fd.filter(|_| self.asked <= ASKED_MAX) else {
            return Side::Neither;
        };
        let side = match self.descriptors.takes_requests(fd) {
            Some(true) => Side::Server,
            Some(false) if self.descriptors.describe(fd).kind == Kind::Outbound => Side::Client,
            // A socket between its own threads, or one that gets datagrams of all.
            Some(false) => Side::Neither,
            None => return Side::Neither,
        };
        if self.descriptors.describe(fd).of_network {
            self.learn_side(answer.connection, side);
        }
        if self.sides.len() >= SIDES_MAX {
            self.sides.clear();
        }
        self.sides.insert(socket, side);
        side
    }

    /// The kernel tells when such a connection is over, and forgets it then. A request that it is at goes unseen.
    fn learn_side(&self, connection: u64, side: Side) {
        let role = match side {
            Side::Server => SERVER,
            Side::Client => CLIENT,
            Side::Neither => NEITHER,
        };
        let known = Connection {
            role,
            ..Connection::zeroed()
        };
        self.connections.put(connection, known);
    }
}

/// `None`: two threads were at the connection at once, and its times are of different requests.
fn told(answer: &Answer) -> Option<Told> {
    let times = [answer.arrived_ns, answer.received_ns, answer.answered_ns];
    (times[0] > 0 && times.is_sorted()).then_some(Told {
        arrived_ns: times[0],
        received_ns: times[1],
        answered_ns: times[2],
        receiver: answer.receiver,
        sender: answer.sender,
    })
}

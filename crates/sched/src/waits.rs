//! What a blocked thread waits for, from its system call and the arguments.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::{NO_ADDRESS, Wait, WaitKind};

use super::descriptors::{Descriptor, Descriptors, Kind, Peers, Watched, network_of};
use super::pipes::child_of;
use super::places::Places;
use super::sockets::address_in;
pub use super::syscall::Call;
use super::syscall::{Sort, sort};
use super::unsent::Answers;
use symbols::memory::Memory;

pub struct Waits {
    pid: u32,
    memory: Memory,
    descriptors: Descriptors,
    /// The subject's threads belong to a runtime that parks and wakes them as it likes (Go).
    pub futexes_are_the_runtimes: bool,
    /// Words that were waited on with a value that no lock has: counters of conditions and semaphores, which
    /// come by the values of locks too.
    counters: HashSet<u64>,
    /// Words of glibc's read-write locks: those keep their writer elsewhere than a mutex its owner.
    rwlocks: HashSet<u64>,
    pub answers: Answers,
}

/// `struct sockaddr_un`, the longest that is read.
const ADDRESS_BYTES_MAX: usize = 110;
/// Words of either kind remembered; past it they are learnt anew.
const WORDS_MAX: usize = 8_192;
/// `struct __pthread_rwlock_arch_t`: readers wait at its third word, writers at the fourth, and the seventh is the
/// writer.
const WRITER_BEHIND: [u64; 2] = [16, 12];
/// What a writer waits with while readers have the lock.
const WRITER_FOR_READERS: u64 = 2;

impl Waits {
    pub fn of(pid: u32) -> Waits {
        Waits {
            pid,
            memory: Memory { pid },
            descriptors: Descriptors::of(pid),
            futexes_are_the_runtimes: false,
            counters: HashSet::new(),
            rwlocks: HashSet::new(),
            answers: Answers::default(),
        }
    }

    pub fn of_call(&mut self, call: &Call, places: &mut Places) -> Wait {
        if call.number < 0 {
            let mut wait = Wait::of(WaitKind::Fault, 0);
            wait.activity = places.text("major page fault");
            return wait;
        }
        let fd = call.args[0] as i32;
        match sort(call.number) {
            Sort::Futex if self.futexes_are_the_runtimes => Wait::of(WaitKind::Other, 0),
            Sort::Futex => self.of_futex(&call.args, places),
            Sort::Read => self.of_transfer(fd, "read", places),
            Sort::Write => self.of_transfer(fd, "write", places),
            Sort::Connect => {
                let bytes = (call.args[2] as usize).min(ADDRESS_BYTES_MAX);
                let address = self.memory.stretch(call.args[1], bytes);
                let name = address_in(&address);
                let name = name.unwrap_or_else(|| self.descriptors.describe(fd).name);
                told(places, WaitKind::Network, fd, &format!("connect to {name}"))
            }
            Sort::Accept => Wait::of(WaitKind::Inbound, fd as u64),
            Sort::Poll => self.of_poll(call, places),
            Sort::Epoll => Wait {
                limit_ns: self.epoll_limit_ns(call),
                ..self.of_epoll(fd, places)
            },
            Sort::Select => Wait::of(WaitKind::Inbound, fd as u64),
            Sort::Sleep => told(places, WaitKind::Sleep, 0, "sleep"),
            Sort::Flock => self.of_file_lock(fd, places),
            Sort::Fcntl if is_file_lock(call.args[1]) => self.of_file_lock(fd, places),
            Sort::Fcntl => Wait::of(WaitKind::Other, 0),
            Sort::Sync(name) => {
                let file = self.descriptors.describe(fd).name;
                told(places, WaitKind::Disk, fd, &format!("{name} of {file}"))
            }
            Sort::File(name) => told(places, WaitKind::Disk, 0, name),
            Sort::Memory(name) => {
                let mut wait = told(places, WaitKind::Memory, 0, name);
                wait.allocator = true;
                wait
            }
            Sort::Child => self.of_child(call, places),
            Sort::Other => Wait::of(WaitKind::Other, 0),
        }
    }

    fn of_child(&mut self, call: &Call, places: &mut Places) -> Wait {
        let [first, second, ..] = call.args;
        let child = match call.number {
            libc::SYS_wait4 => i32::try_from(first as i64).ok(),
            _ => match first as libc::idtype_t {
                libc::P_PID => i32::try_from(second).ok(),
                libc::P_PIDFD => self.descriptors.process_of(second as i32),
                _ => None,
            },
        };
        let child = child.and_then(|child| u32::try_from(child).ok());
        let name = child.and_then(|child| child_of(self.pid, child));
        let words = match name {
            Some(name) => format!("waiting for the child process {name} to end"),
            None => "waiting for a child process to end".to_owned(),
        };
        told(places, WaitKind::Process, 0, &words)
    }

    fn of_futex(&mut self, args: &[u64; 4], places: &mut Places) -> Wait {
        let [address, operation, value, timeout] = *args;
        let mut kind = futex_kind(operation, value as u32, timeout != 0);
        if kind == WaitKind::Queue && value < 2 {
            remember(&mut self.counters, address);
        } else if value < 4 && self.counters.contains(&address) {
            kind = WaitKind::Queue;
        }
        let mut wait = Wait::of(kind, address);
        if kind == WaitKind::Lock && operation & !PRIVATE == REALTIME_BITSET {
            remember(&mut self.rwlocks, address);
            wait.shared = value == WRITER_FOR_READERS;
        }
        wait.timed = timeout != 0;
        if kind == WaitKind::Lock {
            wait.activity = places.text("waiting for a lock");
        }
        wait
    }

    /// Whoever locks a file opened it anew: the file is what they have in common.
    fn of_file_lock(&mut self, fd: i32, places: &mut Places) -> Wait {
        let file = self.descriptors.describe(fd).name;
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        Wait {
            activity: places.text(&format!("waiting for a lock of {file}")),
            ..Wait::of(WaitKind::Lock, hasher.finish() | NO_ADDRESS)
        }
    }

    /// Of a wait for a lock of a file that goes on: which other process has it, in its words.
    pub fn tell_file_holder(&mut self, wait: &mut Wait, call: &Call, places: &mut Places) {
        let fd = call.args[0] as i32;
        if wait.is_of_a_file()
            && let Some(holder) = self.descriptors.locked_by(fd)
        {
            let file = self.descriptors.describe(fd).name;
            let words = format!("waiting for a lock of {file} that {holder} has");
            wait.activity = places.text(&words);
        }
    }

    /// Of a wait for a reply that goes on: why the peer has not got all that it was asked. Of one for a client's next
    /// request the same is counted.
    pub fn tell_what_is_unsent(&mut self, wait: &mut Wait, call: &Call, places: &mut Places) {
        let is_next = wait.kind == WaitKind::Inbound && wait.one_client;
        let fd = match sort(call.number) {
            Sort::Read => Some(call.args[0] as i32),
            Sort::Poll if call.args[1] == 1 => self.memory.word(call.args[0]).map(|fd| fd as i32),
            _ => None,
        };
        let Some(fd) = fd.filter(|_| is_next || wait.kind == WaitKind::Network) else {
            return;
        };
        match self.descriptors.held_back(fd) {
            held if is_next => self.answers.take(held),
            Some(held) => {
                let words = format!("{} ({})", places.words(wait.activity), held.words());
                wait.activity = places.text(&words);
            }
            None => {}
        }
    }

    /// A transfer on a descriptor that a runtime waits for in the subject's stead.
    pub fn of_transfer(&mut self, fd: i32, verb: &str, places: &mut Places) -> Wait {
        let Descriptor {
            kind,
            name,
            one_client,
            of_network,
        } = self.descriptors.describe(fd);
        let network = network_of(of_network);
        match kind {
            Kind::File => told(places, WaitKind::Disk, fd, &format!("{verb} of {name}")),
            Kind::Outbound => {
                let way = if verb == "read" { "from" } else { "to" };
                let words = format!("{network}{verb} {way} {name}");
                told(places, WaitKind::Network, fd, &words)
            }
            Kind::Inbound if verb == "write" => {
                let words = format!("{network}write to {name}");
                told(places, WaitKind::Network, fd, &words)
            }
            // Idle, but for one that holds a lock meanwhile. Not by name: there may be any number.
            Kind::Inbound => {
                let words = format!("{network}read from a client");
                Wait {
                    one_client,
                    ..told(places, WaitKind::Inbound, fd, &words)
                }
            }
            Kind::Epoll => self.of_epoll(fd, places),
            Kind::Process if verb == "write" => {
                told(places, WaitKind::Network, fd, &format!("write to {name}"))
            }
            Kind::Process => told(
                places,
                WaitKind::Process,
                fd,
                &format!("{verb} from {name}"),
            ),
            Kind::Timer => told(places, WaitKind::Sleep, fd, "sleep"),
            Kind::Unknown => told(places, WaitKind::Unknown, fd, &format!("{verb} of {name}")),
            // It is full, and whoever reads it is slow: nobody waits for work so.
            Kind::Between if verb == "write" => {
                let words = match self.descriptors.read_by(&name) {
                    Some(reader) => format!("write to a pipe that {reader} reads"),
                    None => format!("write to {name}"),
                };
                told(places, WaitKind::Network, fd, &words)
            }
            Kind::Between => told(places, WaitKind::Queue, fd, &format!("{verb} of {name}")),
        }
    }

    /// A poll of nothing but connections that the subject opened waits for replies.
    fn of_poll(&mut self, call: &Call, places: &mut Places) -> Wait {
        const DESCRIBED: u64 = 8;
        let [first, count, ..] = call.args;
        let word = |at| self.memory.word(first.wrapping_add(8 * at));
        let fds = (0..count.min(DESCRIBED)).map(|at| word(at).unwrap_or(u32::MAX) as i32);
        let fds: Vec<i32> = fds.collect();
        let watched = match count <= DESCRIBED {
            true => self.descriptors.watched(&fds),
            false => Watched::Unknown,
        };
        // POLLOUT alone: a connection that is being made, or one that takes no more.
        let events = |at| word(at).map(|_| self.memory.word(first.wrapping_add(8 * at + 4)));
        let writes = |at| events(at).flatten().is_some_and(|events| events & 5 == 4);
        let all_write = (1..=DESCRIBED).contains(&count) && (0..count).all(writes);
        if let Watched::Process(name) = &watched
            && !all_write
        {
            return Wait {
                limit_ns: self.poll_limit_ns(call),
                ..told(places, WaitKind::Process, 0, &format!("read from {name}"))
            };
        }
        match watched.peers() {
            Some(peers) if all_write => {
                let words = format!("{}connect or write to {}", peers.network(), peers.first);
                told(places, WaitKind::Network, 0, &words)
            }
            Some(peers) if peers.alone => told(places, WaitKind::Network, 0, &reply_of(&peers)),
            Some(peers) => Wait {
                limit_ns: self.poll_limit_ns(call),
                ..told(places, WaitKind::Outbound, 0, &reply_of(&peers))
            },
            None if count == 0 => told(places, WaitKind::Sleep, 0, "sleep"),
            None if fds.len() == 1 && self.descriptors.describe(fds[0]).one_client => {
                self.of_transfer(fds[0], if all_write { "write" } else { "read" }, places)
            }
            None => Wait::of(WaitKind::Inbound, 0),
        }
    }

    fn poll_limit_ns(&self, call: &Call) -> u64 {
        match call.number {
            libc::SYS_ppoll => self.time_ns(call.args[2]),
            _ => milliseconds(call.args[2]),
        }
    }

    fn of_epoll(&mut self, fd: i32, places: &mut Places) -> Wait {
        match self.descriptors.of_epoll(fd) {
            Watched::Peers(peers) => told(places, WaitKind::Outbound, fd, &reply_of(&peers)),
            Watched::Process(name) => {
                told(places, WaitKind::Process, fd, &format!("read from {name}"))
            }
            watched => Wait {
                one_client: watched == Watched::OneClient,
                ..Wait::of(WaitKind::Inbound, fd as u64)
            },
        }
    }

    /// The time after which an epoll's wait ends by itself: milliseconds, or of epoll_pwait2 a `struct timespec`.
    fn epoll_limit_ns(&self, call: &Call) -> u64 {
        let limit = call.args[3];
        if call.number != libc::SYS_epoll_pwait2 {
            return milliseconds(limit);
        }
        self.time_ns(limit)
    }

    /// A `struct timespec`; 0 where there is none.
    fn time_ns(&self, address: u64) -> u64 {
        // Of the 64-bit words the lower halves: nobody waits for 136 years.
        let seconds = self.memory.word(address).unwrap_or(0);
        let rest = self.memory.word(address.wrapping_add(8)).unwrap_or(0);
        u64::from(seconds) * 1_000_000_000 + u64::from(rest)
    }

    /// The holder that a lock's memory names; `known` tells a thread of the subject from any other
    /// number.
    pub fn holder(&self, wait: &Wait, known: impl Fn(u64) -> bool) -> Option<u64> {
        if wait.kind != WaitKind::Lock || wait.object == 0 || wait.is_of_a_file() {
            return None;
        }
        if self.rwlocks.contains(&wait.object) {
            let writers = WRITER_BEHIND.map(|behind| self.memory.word(wait.object + behind));
            let mut writers = writers.into_iter().flatten().map(u64::from);
            return writers.find(|tid| *tid > 2 && known(*tid));
        }
        let words = (
            self.memory.word(wait.object),
            self.memory.word(wait.object + 8),
        );
        owner(words, known)
    }
}

/// What glibc waits for with a clock of its own choice: read-write locks among it.
const REALTIME_BITSET: u64 = 256 | 9;
const PRIVATE: u64 = 128;

fn remember(words: &mut HashSet<u64>, address: u64) {
    if words.len() == WORDS_MAX {
        words.clear();
    }
    words.insert(address);
}

fn is_file_lock(command: u64) -> bool {
    [libc::F_SETLKW, libc::F_OFD_SETLKW].contains(&(command as i32))
}

/// A lock's futex is waited on with the value that says "held, and others wait": 2 for glibc and
/// Rust's std, 3 for Zig and glibc's read-write lock, the owner's number with the top bit for musl and priority
/// inheritance.
/// Conditions, semaphores and parked threads wait on counters.
pub fn futex_kind(operation: u64, value: u32, timed: bool) -> WaitKind {
    const WAIT: u64 = 0;
    const LOCK_PI: u64 = 6;
    const WAIT_BITSET: u64 = 9;
    const LOCK_PI2: u64 = 13;
    const FLAGS: u64 = 128 | 256;
    const WAITERS: u32 = 1 << 31;
    const RWLOCK_WAITERS: u32 = 0b11 << 30;
    match operation & !FLAGS {
        LOCK_PI | LOCK_PI2 => WaitKind::Lock,
        WAIT if value == 2 || value == 3 && !timed => WaitKind::Lock,
        WAIT if value & WAITERS != 0 && value != u32::MAX => WaitKind::Lock,
        WAIT_BITSET if !timed && (value == 2 || value == 3) => WaitKind::Lock,
        // Readers and writers that wait, in the state word of Rust's RwLock.
        WAIT_BITSET if !timed && value & RWLOCK_WAITERS != 0 && value != u32::MAX => WaitKind::Lock,
        _ => WaitKind::Queue,
    }
}

/// The thread that the lock's memory names: glibc keeps it 8 bytes behind the futex, musl and
/// priority-inheritance mutexes in the futex itself.
pub fn owner(words: (Option<u32>, Option<u32>), known: impl Fn(u64) -> bool) -> Option<u64> {
    const TID: u32 = (1 << 30) - 1;
    // musl's plain mutex keeps no owner: a thread of that number is not meant.
    const MUSL_TAKEN: u64 = libc::EBUSY as u64;
    let (own, behind) = words;
    let named = |word: Option<u32>| word.map(u64::from).filter(|tid| *tid > 2 && known(*tid));
    let own = named(own.map(|word| word & TID));
    named(behind).or_else(|| own.filter(|tid| *tid != MUSL_TAKEN))
}

fn reply_of(peers: &Peers) -> String {
    let network = peers.network();
    match peers.count {
        1 => format!("{network}read from {}", peers.first),
        count => format!("{network}read from one of {count} peers"),
    }
}

/// Of the `int` of poll(2); negative: without an end.
fn milliseconds(limit: u64) -> u64 {
    let limit = limit as i32;
    u64::try_from(limit).unwrap_or(0) * 1_000_000
}

fn told(places: &mut Places, kind: WaitKind, fd: i32, words: &str) -> Wait {
    Wait {
        activity: places.text(words),
        ..Wait::of(kind, fd as u64)
    }
}

/// A line of /proc/PID/task/TID/syscall of a blocked thread: call, arguments, sp, pc.
/// `None` while it runs.
pub fn parse_syscall(line: &str) -> Option<(Call, u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let hex = |word: &&str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let number: i64 = words.first()?.parse().ok()?;
    let (sp, pc) = match words.len() {
        9 => (hex(&words[7])?, hex(&words[8])?),
        3 => (hex(&words[1])?, hex(&words[2])?),
        _ => return None,
    };
    // A thread that was never in the program, or not yet.
    if pc == 0 {
        return None;
    }
    let arg = |at: usize| {
        words
            .get(at)
            .filter(|_| words.len() == 9)
            .and_then(hex)
            .unwrap_or(0)
    };
    let args = [arg(1), arg(2), arg(3), arg(4)];
    Some((Call { number, args }, sp, pc))
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;

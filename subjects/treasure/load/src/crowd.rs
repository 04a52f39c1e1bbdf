//! A thread of players: sends taps when they are due, reads answers, and brings lost players back.

use std::io;
use std::iter::Peekable;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hdrhistogram::Histogram;
use highwater_load::Recorder;
use highwater_load::clock::now_ns;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use socket2::{Domain, Socket, Type};

use crate::pauses::Pauses;
use crate::player::{Event, Player};
use crate::ramp::Ramp;

const TIMER: Token = Token(usize::MAX);
/// From one try to connect to the next.
const RETRY_NS: u64 = 100_000_000;
/// How often the end, timeouts and drop-outs are looked for.
const LOOK_NS: u64 = 10_000_000;
/// How long the end waits for answers under way.
const GRACE_NS: u64 = 1_000_000_000;
/// Connections from one local address: Linux has 28,232 ports for it unless told otherwise.
const PORTS: usize = 25_000;

/// What all crowds share.
pub struct Shared {
    pub recorder: Recorder,
    pub stop: AtomicBool,
    pub connected: AtomicU64,
    pub resumed: AtomicU64,
    /// Sessions whose account differs between player and server.
    pub wrong: AtomicU64,
    pub refused: AtomicU64,
    pub reconnects: AtomicU64,
}

impl Shared {
    pub fn new(start_ns: u64) -> Shared {
        Shared {
            recorder: Recorder::new(start_ns),
            stop: AtomicBool::new(false),
            connected: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
        }
    }
}

/// What a crowd is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub server: SocketAddr,
    pub ramp: Ramp,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Players that hang up and come back, per second.
    pub dropouts_per_s: f64,
    pub timeout: Duration,
    /// Answers slower than this belong to a pause.
    pub pause_over: Duration,
    pub seed: u64,
    /// Number of this crowd's first player over all crowds, for its local address.
    pub first: usize,
}

struct Seat {
    player: Player,
    stream: Option<TcpStream>,
    is_connected: bool,
    retry_ns: u64,
    /// Registered for writing.
    wants_write: bool,
    /// Hung up by its own will and not yet on its way back.
    is_away: bool,
}

pub struct Crowd<'a> {
    plan: Plan,
    shared: &'a Shared,
    poll: Poll,
    seats: Vec<Seat>,
    random: fastrand::Rng,
    next_dropout_ns: u64,
    seen: Seen,
}

/// What a crowd measured, beside what it recorded line by line.
pub struct Seen {
    /// How late taps were handed to the socket, ns.
    pub late: Histogram<u64>,
    /// From due to answered, ns.
    pub latency: Histogram<u64>,
    pub pauses: Pauses,
}

impl Seen {
    pub fn new(pause_over: Duration) -> Seen {
        Seen {
            late: highwater_load::interval::new_histogram(),
            latency: highwater_load::interval::new_histogram(),
            pauses: Pauses::new(pause_over.as_nanos() as u64),
        }
    }

    /// Adds another thread's.
    ///
    /// # Errors
    /// Never for histograms of the same bounds, which these have.
    pub fn add(&mut self, other: Seen) -> Result<(), hdrhistogram::AdditionError> {
        self.late.add(other.late)?;
        self.latency.add(other.latency)?;
        self.pauses.add(other.pauses);
        Ok(())
    }
}

impl<'a> Crowd<'a> {
    /// # Errors
    /// When there is no descriptor for a poll.
    pub fn new(plan: Plan, players: Vec<Player>, shared: &'a Shared) -> io::Result<Crowd<'a>> {
        let seat = |player| Seat {
            player,
            stream: None,
            is_connected: false,
            retry_ns: 0,
            wants_write: false,
            is_away: false,
        };
        let seen = Seen::new(plan.pause_over);
        Ok(Crowd {
            random: fastrand::Rng::with_seed(plan.seed),
            next_dropout_ns: plan.start_ns,
            plan,
            shared,
            poll: Poll::new()?,
            seats: players.into_iter().map(seat).collect(),
            seen,
        })
    }

    /// Plays until the end; what it measured.
    ///
    /// # Errors
    /// When poll or timer fail; never for what the server does.
    pub fn run(mut self) -> io::Result<Seen> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let source = timer.as_raw_fd();
        self.poll
            .registry()
            .register(&mut SourceFd(&source), TIMER, Interest::READABLE)?;
        let mut events = Events::with_capacity(1024);
        let start_ns = self.plan.start_ns;
        let mut due = self
            .plan
            .ramp
            .clone()
            .map(|offset_ns| start_ns + offset_ns)
            .peekable();
        let (mut look_ns, mut armed_ns) = (0, 0);
        while !self.shared.stop.load(Relaxed) {
            let now = now_ns();
            if now >= look_ns {
                self.look_around(now);
                look_ns = now + LOOK_NS;
            }
            self.tap_due(&mut due);
            let is_over = now >= self.plan.end_ns;
            if is_over && (now >= self.plan.end_ns + GRACE_NS || self.all_idle()) {
                break;
            }
            let due_ns = if is_over { None } else { due.peek() };
            let next_ns = due_ns.copied().unwrap_or(u64::MAX).min(look_ns);
            if armed_ns != next_ns {
                arm(&timer, next_ns)?;
                armed_ns = next_ns;
            }
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                if event.token() == TIMER {
                    read_timer(&timer);
                    continue;
                }
                self.serve(event.token().0);
                // A poll brings up to a thousand answers, some microseconds each: no tap waits for all of them.
                self.tap_due(&mut due);
            }
        }
        Ok(self.end())
    }

    /// All taps that are due by now.
    fn tap_due(&mut self, due: &mut Peekable<impl Iterator<Item = u64>>) {
        let until_ns = now_ns().min(self.plan.end_ns);
        while let Some(due_ns) = due.next_if(|due_ns| *due_ns <= until_ns) {
            if due_ns < self.plan.end_ns {
                self.tap(due_ns);
            }
        }
    }

    /// A tap of a random player, of those that are there: the time that one is away by its own will is no latency
    /// of the server. (One whose connection was lost, or is not let in, counts.)
    fn tap(&mut self, due_ns: u64) {
        let drawn = self.random.usize(..self.seats.len());
        let at = first_from(drawn, self.seats.len(), |at| !self.seats[at].is_away);
        if !self.seats[at].player.tap(due_ns) {
            return self.shared.recorder.dropped(1);
        }
        if !self.seats[at].is_connected {
            return;
        }
        self.write(at);
        // One that waits for answers before it is not sent: that is the server's time, not this program's.
        if !self.seats[at].player.has_waiting() {
            let _ = self
                .seen
                .late
                .record(now_ns().saturating_sub(due_ns).max(1));
        }
    }

    fn write(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let Some(stream) = &mut seat.stream else {
            return;
        };
        if seat.player.write(stream).is_err() {
            return self.lose(at);
        }
        let wants_write = seat.player.wants_write();
        if wants_write != seat.wants_write {
            seat.wants_write = wants_write;
            let interest = if wants_write {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            if self
                .poll
                .registry()
                .reregister(stream, Token(at), interest)
                .is_err()
            {
                self.lose(at);
            }
        }
    }

    fn serve(&mut self, at: usize) {
        let Some(seat) = self.seats.get_mut(at) else {
            return;
        };
        let Some(stream) = &mut seat.stream else {
            return;
        };
        if !seat.is_connected {
            if !matches!(stream.take_error(), Ok(None)) || stream.peer_addr().is_err() {
                return self.lose(at);
            }
            seat.is_connected = true;
            self.shared.connected.fetch_add(1, Relaxed);
        }
        let shared = self.shared;
        let seen = &mut self.seen;
        let mut report = |event| record(shared, seen, event);
        if seat.player.read(stream, &mut report).is_err() {
            return self.lose(at);
        }
        self.write(at);
    }

    fn lose(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        seat.stream = None;
        if std::mem::take(&mut seat.is_connected) {
            self.shared.connected.fetch_sub(1, Relaxed);
            self.shared.reconnects.fetch_add(1, Relaxed);
        }
        seat.retry_ns = now_ns() + RETRY_NS;
    }

    fn connect(&mut self, at: usize) -> io::Result<()> {
        self.seats[at].is_away = false;
        let mut stream = connect(self.plan.server, self.plan.first + at)?;
        let seat = &mut self.seats[at];
        seat.player.connected();
        seat.wants_write = true;
        self.poll.registry().register(
            &mut stream,
            Token(at),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        seat.stream = Some(stream);
        Ok(())
    }

    fn look_around(&mut self, now: u64) {
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            if seat
                .player
                .oldest_due_ns()
                .is_some_and(|due_ns| now.saturating_sub(due_ns) > timeout_ns)
            {
                // A session whose taps were given up cannot know its next number: it asks by a new hello.
                seat.player
                    .give_up()
                    .for_each(|due_ns| self.shared.recorder.timed_out(due_ns, now));
                seat.player = Player::default();
                self.lose(at);
            } else if seat.stream.is_none() && now >= seat.retry_ns && self.connect(at).is_err() {
                self.lose(at);
            }
        }
        while self.plan.dropouts_per_s > 0.0
            && self.next_dropout_ns <= now
            && !self.seats.is_empty()
        {
            self.next_dropout_ns += (1e9 / self.plan.dropouts_per_s) as u64;
            let at = self.random.usize(..self.seats.len());
            if self.seats[at].is_connected {
                self.lose(at);
                self.seats[at].is_away = true;
            }
        }
    }

    fn all_idle(&self) -> bool {
        self.seats.iter().all(|seat| seat.player.is_idle())
    }

    fn end(mut self) -> Seen {
        let now = now_ns();
        for seat in &mut self.seats {
            let unanswered = seat.player.give_up();
            unanswered.for_each(|due_ns| self.shared.recorder.timed_out(due_ns, now));
        }
        self.seen
    }
}

/// The first place that is good, going round from `drawn`; `drawn` itself when none is.
fn first_from(drawn: usize, places: usize, is_good: impl Fn(usize) -> bool) -> usize {
    let mut round = (0..places).map(|step| (drawn + step) % places);
    round.find(|at| is_good(*at)).unwrap_or(drawn)
}

fn record(shared: &Shared, seen: &mut Seen, event: Event) {
    match event {
        Event::Answered { due_ns } => {
            let now = now_ns();
            shared.recorder.answered(due_ns, now);
            seen.latency
                .saturating_record(now.saturating_sub(due_ns).max(1));
            seen.pauses.answered(due_ns, now);
        }
        Event::Refused { .. } => {
            shared.refused.fetch_add(1, Relaxed);
            shared.recorder.failed();
        }
        Event::Resumed => {
            shared.resumed.fetch_add(1, Relaxed);
        }
        Event::Wrong { .. } => {
            shared.wrong.fetch_add(1, Relaxed);
        }
    }
}

/// Starts to connect player `number`, from one of the addresses of 127.0.0.0/8 when the server is there.
///
/// # Errors
/// When there is no descriptor or port.
pub fn connect(server: SocketAddr, number: usize) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if server.ip().is_loopback() && server.is_ipv4() && number >= PORTS {
        let last = Ipv4Addr::new(127, 0, 1, 1 + (number / PORTS % 250) as u8);
        socket.bind(&SocketAddr::from((last, 0)).into())?;
    }
    match socket.connect(&server.into()) {
        Err(error)
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// An absolute time; past ones fire at once.
fn arm(timer: &impl std::os::fd::AsFd, at_ns: u64) -> io::Result<()> {
    let at_ns = at_ns.min(i64::MAX as u64).max(1);
    let time = |ns: u64| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    let spec = Itimerspec {
        it_interval: time(0),
        it_value: time(at_ns),
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    Ok(())
}

/// Makes the timer quiet again; it may not have fired.
fn read_timer(timer: &impl std::os::fd::AsFd) {
    let _ = rustix::io::read(timer, &mut [0u8; 8]);
}

#[cfg(test)]
mod tests {
    use super::first_from;

    #[test]
    fn taps_go_to_those_who_are_there_and_to_somebody_when_nobody_is() {
        let is_there = [false, true, false, false];
        let at = |drawn| first_from(drawn, 4, |at| is_there[at]);
        assert_eq!([at(0), at(1), at(2), at(3)], [1, 1, 1, 1]);
        assert_eq!(first_from(3, 4, |_| true), 3);
        assert_eq!(first_from(2, 4, |_| false), 2);
    }
}

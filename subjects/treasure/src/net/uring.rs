//! The network by io_uring: a ring, a listening socket and a lane of the log per thread, no other thread between.
//!
//! A connection has at most one operation in the ring at a time: receive, then (with others) a write of the log,
//! then send. Records of all connections that were read in one turn are one write.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::Limits;
use super::exchange::Talk;
use super::listen::Spare;
use crate::figures::Dropped;
use crate::game::Table;
use crate::log::Lane;

/// Entries of the ring: completions of one turn, not connections.
const ENTRIES: u32 = 4096;
/// How often silent and slow connections are looked for, and a new generation.
const TICK_MS: u32 = 100;

/// What a completion is of; the low bits of its user data.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const LOG: u64 = 3;
const TICK: u64 = 4;
const SYNC: u64 = 5;
const KIND_BITS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Receiving,
    /// Waits for the log.
    Storing,
    Sending {
        sent: usize,
    },
}

struct Connection {
    socket: OwnedFd,
    talk: Box<Talk>,
    doing: Doing,
    since: Instant,
    /// Counted as dropped already, its socket shut down; its last operation is still under way.
    is_dropped: bool,
}

/// Records that are gathered, or under way to the log.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Connections whose answers wait for it.
    waiting: Vec<usize>,
}

pub struct Worker {
    ring: IoUring,
    listener: TcpListener,
    table: Arc<dyn Table>,
    lane: Lane,
    limits: Limits,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    gathered: Batch,
    /// Being written, with how much of it is.
    writing: Option<(Batch, usize)>,
    /// The write under way is to be followed by a sync.
    is_syncing: bool,
    spare: Spare,
    /// An accept is under way.
    accepts: bool,
    tick: Box<types::Timespec>,
}

impl Worker {
    /// # Errors
    /// When the kernel gives no ring (io_uring may be switched off: see kernel.io_uring_disabled).
    pub fn new(
        listener: TcpListener,
        table: Arc<dyn Table>,
        lane: Lane,
        limits: Limits,
    ) -> io::Result<Worker> {
        Ok(Worker {
            ring: IoUring::new(ENTRIES)?,
            listener,
            table,
            lane,
            limits,
            connections: Vec::new(),
            free: Vec::new(),
            gathered: Batch::default(),
            writing: None,
            is_syncing: false,
            spare: Spare::new(),
            accepts: true,
            tick: Box::new(types::Timespec::new().nsec(TICK_MS * 1_000_000)),
        })
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// When the ring itself fails.
    pub fn run(mut self) -> io::Result<()> {
        self.accept()?;
        self.wait_a_tick()?;
        let mut done: Vec<(u64, i32, bool)> = Vec::with_capacity(ENTRIES as usize);
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error)
                    if error.kind() != io::ErrorKind::Interrupted
                        && error.raw_os_error() != Some(rustix::io::Errno::BUSY.raw_os_error()) =>
                {
                    return Err(error);
                }
                _ => {}
            }
            done.clear();
            let more = |entry: &cqueue::Entry| cqueue::more(entry.flags());
            done.extend(
                self.ring
                    .completion()
                    .map(|entry| (entry.user_data(), entry.result(), more(&entry))),
            );
            for (of, result, goes_on) in done.drain(..) {
                self.completed(of, result, goes_on)?;
            }
            self.store()?;
        }
    }

    fn completed(&mut self, of: u64, result: i32, goes_on: bool) -> io::Result<()> {
        let at = (of >> KIND_BITS) as usize;
        match of & ((1 << KIND_BITS) - 1) {
            ACCEPT => self.accepted(result, goes_on),
            RECEIVE => self.received(at, result),
            SEND => self.sent(at, result),
            LOG => self.stored(result),
            SYNC => self.synced(result),
            _ => {
                self.look_around();
                if !self.accepts {
                    self.accepts = true;
                    self.accept()?;
                }
                self.wait_a_tick()
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let listener = types::Fd(self.listener.as_raw_fd());
        self.push(opcode::AcceptMulti::new(listener).build().user_data(ACCEPT))
    }

    fn wait_a_tick(&mut self) -> io::Result<()> {
        let time: *const types::Timespec = &*self.tick;
        self.push(opcode::Timeout::new(time).build().user_data(TICK))
    }

    fn accepted(&mut self, result: i32, goes_on: bool) -> io::Result<()> {
        let table = self.table.clone();
        let figures = table.figures();
        if result >= 0 {
            // SAFETY: a descriptor that the kernel just made for this ring alone.
            let socket = unsafe { OwnedFd::from_raw_fd(result) };
            if figures.open() >= self.limits.connections as u64 {
                figures.drop_one(Dropped::NoDescriptor);
            } else {
                figures.add(&figures.accepted, 1);
                // Failing, answers come later by the kernel's own delay.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                let at = self.seat(socket);
                self.receive(at)?;
            }
        } else if [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
            .iter()
            .any(|errno| errno.raw_os_error() == -result)
        {
            let away = self.spare.turn_away(&self.listener);
            figures.drop_some(Dropped::NoDescriptor, away);
        }
        // What failed once would fail at once again, and keep the ring busy with it: later.
        self.accepts = goes_on || result >= 0;
        if result >= 0 && !goes_on {
            return self.accept();
        }
        Ok(())
    }

    fn seat(&mut self, socket: OwnedFd) -> usize {
        let connection = Connection {
            socket,
            talk: Box::default(),
            doing: Doing::Receiving,
            since: Instant::now(),
            is_dropped: false,
        };
        match self.free.pop() {
            Some(at) => {
                self.connections[at] = Some(connection);
                at
            }
            None => {
                self.connections.push(Some(connection));
                self.connections.len() - 1
            }
        }
    }

    fn receive(&mut self, at: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[at] else {
            return Ok(());
        };
        connection.doing = Doing::Receiving;
        connection.since = Instant::now();
        let space = &mut connection.talk.input[connection.talk.filled..];
        let socket = types::Fd(connection.socket.as_raw_fd());
        let entry = opcode::Recv::new(socket, space.as_mut_ptr(), space.len() as u32);
        self.push(entry.build().user_data((at as u64) << KIND_BITS | RECEIVE))
    }

    fn received(&mut self, at: usize, result: i32) -> io::Result<()> {
        let table = self.table.clone();
        let Some(connection) = self.connections[at].as_mut() else {
            return Ok(());
        };
        if result <= 0 || connection.is_dropped {
            self.end(at);
            return Ok(());
        }
        connection.talk.filled += result as usize;
        let stored_before = self.gathered.bytes.len();
        if connection
            .talk
            .play(&*table, &mut self.gathered.bytes)
            .is_err()
        {
            table.figures().drop_one(Dropped::Broken);
            // What it was given before the broken frame stays given.
            self.end(at);
            return Ok(());
        }
        connection.doing = Doing::Storing;
        connection.since = Instant::now();
        if self.gathered.bytes.len() > stored_before {
            self.gathered.waiting.push(at);
            return Ok(());
        }
        self.send(at, 0)
    }

    fn send(&mut self, at: usize, sent: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[at] else {
            return Ok(());
        };
        if connection.is_dropped {
            self.end(at);
            return Ok(());
        }
        let rest = &connection.talk.output[sent..connection.talk.ready];
        if rest.is_empty() {
            return self.receive(at);
        }
        if sent == 0 {
            connection.since = Instant::now();
        }
        connection.doing = Doing::Sending { sent };
        let socket = types::Fd(connection.socket.as_raw_fd());
        let entry = opcode::Send::new(socket, rest.as_ptr(), rest.len() as u32);
        self.push(entry.build().user_data((at as u64) << KIND_BITS | SEND))
    }

    fn sent(&mut self, at: usize, result: i32) -> io::Result<()> {
        let Some(connection) = &self.connections[at] else {
            return Ok(());
        };
        match connection.doing {
            Doing::Sending { sent } if result > 0 => self.send(at, sent + result as usize),
            _ => {
                self.end(at);
                Ok(())
            }
        }
    }

    /// Starts the write of what was gathered, unless one is under way.
    fn store(&mut self) -> io::Result<()> {
        if self.writing.is_some() || self.gathered.bytes.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.gathered);
        if self.lane.tick().is_err() {
            return self.not_stored(batch);
        }
        self.writing = Some((batch, 0));
        self.write_on()
    }

    fn write_on(&mut self) -> io::Result<()> {
        let Some((batch, written)) = &self.writing else {
            return Ok(());
        };
        let rest = &batch.bytes[*written..];
        let (file, offset, wants_sync) = self.lane.target();
        self.is_syncing = wants_sync;
        let entry = opcode::Write::new(
            types::Fd(file.as_raw_fd()),
            rest.as_ptr(),
            rest.len() as u32,
        )
        .offset(offset + *written as u64);
        self.push(entry.build().user_data(LOG))
    }

    fn stored(&mut self, result: i32) -> io::Result<()> {
        let Some((batch, written)) = &mut self.writing else {
            return Ok(());
        };
        if result <= 0 {
            return self.give_up_batch();
        }
        *written += result as usize;
        if *written < batch.bytes.len() {
            return self.write_on();
        }
        if self.is_syncing {
            let file: RawFd = self.lane.target().0.as_raw_fd();
            let entry = opcode::Fsync::new(types::Fd(file)).flags(types::FsyncFlags::DATASYNC);
            return self.push(entry.build().user_data(SYNC));
        }
        self.answer_batch(false)
    }

    fn synced(&mut self, result: i32) -> io::Result<()> {
        if result < 0 {
            self.give_up_batch()
        } else {
            self.answer_batch(true)
        }
    }

    fn answer_batch(&mut self, synced: bool) -> io::Result<()> {
        let Some((mut batch, written)) = self.writing.take() else {
            return Ok(());
        };
        self.lane.wrote(written, synced);
        self.table.figures().logged(written, true);
        for at in batch.waiting.drain(..) {
            self.send(at, 0)?;
        }
        // The next one's buffers, so that a steady load allocates none.
        if self.gathered.bytes.is_empty() {
            batch.bytes.clear();
            self.gathered = batch;
        }
        self.store()
    }

    fn give_up_batch(&mut self) -> io::Result<()> {
        match self.writing.take() {
            Some((batch, _)) => self.not_stored(batch),
            None => Ok(()),
        }
    }

    /// Nobody is answered; players come back with their tokens and send the same taps again.
    fn not_stored(&mut self, batch: Batch) -> io::Result<()> {
        let table = self.table.clone();
        table.figures().logged(batch.bytes.len(), false);
        for at in batch.waiting {
            table.figures().drop_one(Dropped::NotStored);
            self.end(at);
        }
        Ok(())
    }

    /// Shuts down what is silent or does not read. The operation under way then ends with an error, and the
    /// connection with it.
    fn look_around(&mut self) {
        // Failing, the snapshot that waits for it gives up and says so.
        if self.writing.is_none() {
            let _ = self.lane.tick();
        }
        let now = Instant::now();
        for connection in self
            .connections
            .iter_mut()
            .flatten()
            .filter(|one| !one.is_dropped)
        {
            let (limit, why) = match connection.doing {
                Doing::Receiving => (self.limits.idle, Dropped::Silent),
                Doing::Sending { .. } => (self.limits.slow, Dropped::SlowReader),
                Doing::Storing => continue,
            };
            if now.saturating_duration_since(connection.since) > limit {
                connection.is_dropped = true;
                self.table.figures().drop_one(why);
                // Failing, it is closed already.
                let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
            }
        }
    }

    /// Closes a connection that has no operation under way.
    fn end(&mut self, at: usize) {
        if self.connections[at].take().is_some() {
            let figures = self.table.figures();
            figures.add(&figures.ended, 1);
            self.free.push(at);
        }
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: buffers are in a connection's box, in `writing` or in `tick`, all of which stay where they are
            // until the completion; descriptors stay open until then.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }
}

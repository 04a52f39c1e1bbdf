//! Messages from the thread that reads the socket to the caller, bounded by number and by bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MESSAGES_MAX: usize = 1024;
/// Two of the largest messages.
const BYTES_MAX: usize = 128 << 20;
/// A caller that takes no message for so long is not reading: there is no call, or it hangs.
const STALL: Duration = Duration::from_secs(1);

pub struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    stall: Duration,
}

struct State<T> {
    messages: VecDeque<(T, usize)>,
    bytes: usize,
    is_closed: bool,
}

/// Why there is no message.
#[derive(Debug, PartialEq, Eq)]
pub enum Empty {
    Timeout,
    Closed,
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                messages: VecDeque::new(),
                bytes: 0,
                is_closed: false,
            }),
            changed: Condvar::new(),
            stall: STALL,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room while the caller takes messages. `false`: the queue is closed, or the caller takes none.
    pub fn push(&self, message: T, bytes: usize) -> bool {
        let mut state = self.lock();
        while !state.is_closed && !state.has_room(bytes) {
            let waited = self.changed.wait_timeout(state, self.stall);
            let (locked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            if timeout.timed_out() && !state.has_room(bytes) {
                return false;
            }
        }
        if state.is_closed {
            return false;
        }
        state.bytes += bytes;
        state.messages.push_back((message, bytes));
        self.changed.notify_all();
        true
    }

    /// The next message. At `until` it is a timeout, even where messages wait: a peer that never stops sending must not
    /// keep the caller.
    pub fn pop(&self, until: Instant) -> Result<T, Empty> {
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Empty::Timeout);
            }
            if let Some((message, bytes)) = state.messages.pop_front() {
                state.bytes -= bytes;
                self.changed.notify_all();
                return Ok(message);
            }
            if state.is_closed {
                return Err(Empty::Closed);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What waits can still be taken; nothing is added any more.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl<T> State<T> {
    fn has_room(&self, bytes: usize) -> bool {
        self.messages.is_empty()
            || self.messages.len() < MESSAGES_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn a_full_queue_does_not_block_for_ever() {
        let mut queue = Queue::new();
        queue.stall = Duration::from_millis(10);
        assert!(queue.push(1, BYTES_MAX + 1), "one message always has room");
        assert!(!queue.push(2, 1), "no room, and nothing is taken");
        assert_eq!(queue.pop(soon()), Ok(1));
        let pushed = (0..MESSAGES_MAX + 1).filter(|_| queue.push(3, 0)).count();
        assert_eq!(pushed, MESSAGES_MAX);
    }

    #[test]
    fn waiting_messages_do_not_move_the_deadline() {
        let queue = Queue::new();
        assert!(queue.push(1, 1));
        assert_eq!(queue.pop(Instant::now()), Err(Empty::Timeout));
        queue.close();
        assert!(!queue.push(2, 1));
        assert_eq!(queue.pop(soon()), Ok(1));
        assert_eq!(queue.pop(soon()), Err(Empty::Closed));
    }
}

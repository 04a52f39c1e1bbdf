//! Connections that wait for a worker.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::lock::lock;

/// One that was accepted.
pub struct Accepted {
    pub stream: TcpStream,
    pub at: Instant,
    /// The same time by the calendar, in nanoseconds since 1970.
    pub unix_ns: u64,
}

/// First in, first out; closed once, and then emptied.
pub struct Queue<T> {
    waiting: Mutex<(VecDeque<T>, bool)>,
    wake: Condvar,
    most: usize,
}

impl<T> Queue<T> {
    pub fn new(most: usize) -> Queue<T> {
        Queue {
            waiting: Mutex::default(),
            wake: Condvar::new(),
            most,
        }
    }

    /// Gives it back when there are too many, or the queue is closed.
    ///
    /// # Errors
    /// With what was to be put in.
    pub fn push(&self, one: T) -> Result<(), T> {
        let mut waiting = lock(&self.waiting);
        if waiting.1 || waiting.0.len() >= self.most {
            return Err(one);
        }
        waiting.0.push_back(one);
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for the next; none when the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let waiting = self.wake.wait_while(lock(&self.waiting), |waiting| {
            waiting.0.is_empty() && !waiting.1
        });
        waiting
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .0
            .pop_front()
    }

    /// What has come by now, at most `most`; does not wait.
    pub fn take(&self, most: usize) -> Vec<T> {
        let mut waiting = lock(&self.waiting);
        let count = waiting.0.len().min(most);
        waiting.0.drain(..count).collect()
    }

    pub fn close(&self) {
        lock(&self.waiting).1 = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_end_is_given_out_and_nothing_after() {
        let queue = Queue::new(2);
        assert_eq!(queue.push(1), Ok(()));
        assert_eq!(queue.push(2), Ok(()));
        assert_eq!(queue.push(3), Err(3));
        queue.close();
        assert_eq!((queue.pop(), queue.take(9)), (Some(1), vec![2]));
        assert_eq!(queue.push(4), Err(4));
        assert_eq!(queue.pop(), None);
    }
}

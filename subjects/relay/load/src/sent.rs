//! Messages on their way through the relay: what was sent and who has not received it yet.

use std::collections::VecDeque;
use std::sync::Mutex;

use highwater_load::Recorder;

/// A message that has not come back after this long is lost, which is an error. The relay's own
/// limit for a consumer that falls behind is far shorter.
pub const LOST_AFTER_NS: u64 = 30_000_000_000;

/// Messages waited for at once; at 700 a second this is more than `LOST_AFTER_NS` of them.
const WAITING_MAX: usize = 50_000;

struct Waiting {
    number: u64,
    due_ns: u64,
    sent_ns: u64,
    /// Consumers that have not received it.
    consumers: usize,
}

/// Matches what consumers receive with when it was due.
pub struct Sent<'a> {
    recorder: &'a Recorder,
    /// In the order of their numbers.
    waiting: Mutex<VecDeque<Waiting>>,
}

impl<'a> Sent<'a> {
    pub fn new(recorder: &'a Recorder) -> Sent<'a> {
        Sent {
            recorder,
            waiting: Mutex::new(VecDeque::new()),
        }
    }

    /// Notes a message about to be sent, whose numbers only grow, for `consumers` to receive.
    pub fn expect(&self, number: u64, due_ns: u64, sent_ns: u64, consumers: usize) {
        let mut waiting = self.lock();
        if waiting.len() == WAITING_MAX {
            self.give_up(waiting.pop_front(), sent_ns);
        }
        waiting.push_back(Waiting {
            number,
            due_ns,
            sent_ns,
            consumers,
        });
    }

    /// The message last expected was not sent after all.
    pub fn withdraw(&self, number: u64) {
        let mut waiting = self.lock();
        if waiting.back().is_some_and(|last| last.number == number) {
            waiting.pop_back();
        }
    }

    /// A consumer received the message at `now_ns`.
    pub fn received(&self, number: u64, now_ns: u64) {
        let mut waiting = self.lock();
        let Ok(at) = waiting.binary_search_by_key(&number, |one| one.number) else {
            return;
        };
        if waiting[at].consumers > 0 {
            waiting[at].consumers -= 1;
            self.recorder.answered(waiting[at].due_ns, now_ns);
        }
        while waiting.front().is_some_and(|first| first.consumers == 0) {
            waiting.pop_front();
        }
    }

    /// Gives up what was sent before `sent_before_ns`.
    pub fn expire(&self, sent_before_ns: u64, now_ns: u64) {
        let mut waiting = self.lock();
        while waiting
            .front()
            .is_some_and(|first| first.sent_ns < sent_before_ns)
        {
            self.give_up(waiting.pop_front(), now_ns);
        }
    }

    /// Whether everything sent was received or given up.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn give_up(&self, lost: Option<Waiting>, now_ns: u64) {
        let Some(lost) = lost else { return };
        for _ in 0..lost.consumers {
            self.recorder.timed_out(lost.due_ns, now_ns);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_consumer_receives_each_message_once_or_it_is_lost() {
        let recorder = Recorder::new(0);
        let sent = Sent::new(&recorder);
        for number in [3, 5, 8] {
            sent.expect(number, 1_000, 2_000, 2);
        }
        sent.withdraw(8);
        sent.received(5, 4_000);
        sent.received(3, 4_000);
        sent.received(3, 4_000);
        sent.received(3, 4_000); // a third copy of it was not expected
        sent.received(4, 4_000); // never sent
        sent.expire(2_000, 9_000); // not yet
        assert!(!sent.is_empty());
        sent.expire(2_001, 9_000);
        assert!(sent.is_empty());
        let interval = recorder.take(10_000);
        assert_eq!((interval.requests, interval.errors), (3, 1));
        assert!(interval.decode_histogram().unwrap().max() >= 8_000);
    }

    #[test]
    fn the_wait_is_bounded() {
        let recorder = Recorder::new(0);
        let sent = Sent::new(&recorder);
        for number in 0..WAITING_MAX as u64 + 10 {
            sent.expect(number, 0, 0, 1);
        }
        assert_eq!(recorder.take(1).errors, 10);
    }
}

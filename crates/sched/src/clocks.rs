//! The clocks that sample threads one by one, where nobody may sample a whole CPU.
//!
//! Each is a timer that the kernel sets as its thread gets a CPU and takes back as it leaves: of a switch's cost to the
//! subject, that is more than half (bench/results). A thread that switches often goes without, until it is at work for
//! long.

use std::os::fd::{AsRawFd, OwnedFd};

use observe::table::Table;

/// Leavings of a CPU in a tenth of a second from which on a thread goes without: 1 us each is then 0.3 % of its time.
const OFTEN: u32 = 300 / 10;

/// A thread's events on all CPUs, whether they are on, and how often it left its CPU since that was last judged.
#[derive(Debug)]
struct Clock {
    events: Vec<OwnedFd>,
    on: bool,
    left: u32,
}

#[derive(Debug, Default)]
pub struct Clocks {
    of: Table<u32, Clock>,
}

impl Clocks {
    pub fn has(&self, tid: u32) -> bool {
        self.of.contains_key(&tid)
    }

    /// `events`: as opened, which is switched on.
    pub fn take(&mut self, tid: u32, events: Vec<OwnedFd>) {
        let on = !events.is_empty();
        let left = 0;
        self.of.insert(tid, Clock { events, on, left });
    }

    pub fn is_on(&self, tid: u32) -> bool {
        self.of.get(&tid).is_some_and(|clock| clock.on)
    }

    pub fn switch(&mut self, tid: u32, on: bool) {
        if let Some(clock) = self.of.get_mut(&tid) {
            clock.switch(on);
        }
    }

    pub fn left(&mut self, tid: u32) {
        if let Some(clock) = self.of.get_mut(&tid) {
            clock.left += 1;
        }
    }

    /// Every tenth of a second: on for those that switch seldom, off for the others.
    pub fn judge(&mut self) {
        for clock in self.of.values_mut() {
            let left = std::mem::take(&mut clock.left);
            clock.switch(left < OFTEN);
        }
    }

    pub fn forget(&mut self, tid: u32) {
        self.of.remove(&tid);
    }
}

impl Clock {
    fn switch(&mut self, on: bool) {
        if self.events.is_empty() || std::mem::replace(&mut self.on, on) == on {
            return;
        }
        for event in &self.events {
            let fd = event.as_raw_fd();
            // SAFETY: the descriptor lives. One whose thread just ended refuses, and is forgotten with it.
            unsafe {
                match on {
                    true => perf_event_open_sys::ioctls::ENABLE(fd, 0),
                    false => perf_event_open_sys::ioctls::DISABLE(fd, 0),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_switches_often_goes_without_until_it_is_at_work() {
        let mut clocks = Clocks::default();
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        clocks.take(1, vec![file()]);
        clocks.take(2, vec![file()]);
        clocks.take(3, Vec::new());
        (0..OFTEN).for_each(|_| clocks.left(1));
        clocks.left(2);
        clocks.judge();
        assert!(!clocks.is_on(1) && clocks.is_on(2) && !clocks.is_on(3));
        clocks.switch(1, true);
        assert!(clocks.is_on(1));
        clocks.judge();
        assert!(clocks.is_on(1), "it was quiet since");
    }
}

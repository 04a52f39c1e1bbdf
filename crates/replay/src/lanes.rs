//! Which stack each thread runs on: one is used again once the thread before on it has ended, two epochs earlier or
//! more. (The thread that finishes an epoch last still opens the next one.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use replayer::{NO_END, Thread};

/// First and last epoch of a thread, and whether it ended before the trace did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first_epoch: u32,
    pub last_epoch: u32,
    pub has_ended: bool,
}

/// A lane for each thread, in their order, and how many there are. The first thread is the main one: it has a lane of
/// its own and no end.
pub fn lanes(lives: &[Life]) -> (Vec<Thread>, u32) {
    let mut order: Vec<usize> = (1..lives.len()).collect();
    order.sort_by_key(|index| lives[*index].first_epoch);
    let mut threads = vec![
        Thread {
            lane: 0,
            last_epoch: NO_END
        };
        lives.len()
    ];
    let mut lanes = 1;
    // Lanes whose last thread has an end, by that.
    let mut free: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    for index in order {
        let life = lives[index];
        let lane = match free.peek() {
            Some(Reverse((last, lane))) if last + 1 < life.first_epoch => {
                let lane = *lane;
                free.pop();
                lane
            }
            _ => {
                lanes += 1;
                lanes - 1
            }
        };
        let last_epoch = if life.has_ended {
            life.last_epoch
        } else {
            NO_END
        };
        if life.has_ended {
            free.push(Reverse((last_epoch, lane)));
        }
        threads[index] = Thread { lane, last_epoch };
    }
    (threads, lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_used_again_two_epochs_later() {
        let life = |first_epoch, last_epoch, has_ended| Life {
            first_epoch,
            last_epoch,
            has_ended,
        };
        let lives = [
            life(0, 9, true),
            life(1, 3, true),
            life(3, 5, true),
            life(5, 8, false),
            life(6, 7, true),
            life(7, 7, true),
        ];
        let (threads, count) = lanes(&lives);
        let lanes: Vec<u32> = threads.iter().map(|thread| thread.lane).collect();
        assert_eq!(lanes, [0, 1, 2, 1, 3, 2]);
        assert_eq!(count, 4);
        assert_eq!(threads[0].last_epoch, NO_END, "the main thread stays");
        assert_eq!((threads[3].last_epoch, threads[4].last_epoch), (NO_END, 7));
    }
}

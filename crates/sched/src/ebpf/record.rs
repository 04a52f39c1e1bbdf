//! One record of the ring, and what it tells.

use bpf::map::begins_with;
use bytemuck::Zeroable;

use super::raw::{
    Coming, Head, IN, Leaving, OUT, PLACE, Place, SHORT_SHIFT, WAIT, WAIT_BYTES, WAKING,
    WakersStack,
};
pub use super::raw::{STACK_BYTES, Thread, User};

/// The bits of `prev_state` that say what a thread leaves for; none: it wants to run. The bit above all others says
/// "preempted".
pub const STATES: u32 = 0xff;
/// Those of one that ends: nobody will wake it, and it never comes back.
pub const GONE: u32 = 0x10 | 0x20;
/// Those of one that a signal or a debugger has stopped (`__TASK_STOPPED`, `__TASK_TRACED` of include/linux/sched.h).
pub const STOPPED: u32 = 0x4 | 0x8;
/// The bit for waits that no signal ends: a disk, a page, the address space.
pub const DEEP: u32 = 2;

impl Thread {
    /// One that is watched from now on: off its CPU as far as anybody knows, and whatever comes next of it is told.
    pub fn watched() -> Thread {
        Thread {
            since_ns: 1,
            is_told: 1,
            ..Thread::zeroed()
        }
    }

    /// Since when the thread is off its CPU.
    pub fn off_since_ns(&self) -> Option<u64> {
        (self.since_ns != 0).then_some(self.since_ns)
    }

    /// Its leaving, when it is off its CPU for long and that was not told; and its waking, when it only wants a CPU
    /// since. `drained_ns`: when the ring was read.
    pub fn untold(&self, drained_ns: u64) -> [Option<Record>; 2] {
        let lasts = drained_ns.saturating_sub(self.since_ns) > UNTOLD_NS;
        if self.since_ns == 0 || !lasts || self.is_told != 0 {
            return [None, None];
        }
        let leaving = &self.leaving;
        let waking = Record {
            at_ns: self.woken_ns,
            tid: leaving.tid,
            what: waking(self.waker, None),
        };
        let leaving = Record {
            at_ns: leaving.at_ns,
            tid: leaving.tid,
            what: leaving.told(),
        };
        [Some(leaving), (self.woken_ns != 0).then_some(waking)]
    }
}

/// A wait that is older than this will be told of whatever the limit.
const UNTOLD_NS: u64 = 1_500_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub at_ns: u64,
    pub tid: u32,
    pub what: Told,
}

/// `at_ns` of a whole wait is that of coming back.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A short wait from its beginning to its end; who woke the thread and when, if anybody had to.
    Whole {
        since_ns: u64,
        state: u32,
        short: Short,
        user: User,
        woken: Option<(u64, u32, u32)>,
        after: Before,
    },
    /// `state` as `prev_state` has it: 0 is preempted.
    Out {
        state: u32,
        short: Short,
        user: User,
    },
    In {
        after: Before,
    },
    /// Who woke it; `stack` when the wait was long and the waker is one of ours.
    Waking {
        waker: u32,
        process: u32,
        user: Option<Box<(User, [u8; STACK_BYTES])>>,
    },
    /// Where it begins to wait for a device; `stack` is the lower end of its stack. Its leaving is told besides.
    Place {
        user: User,
        stack: Vec<u8>,
    },
}

/// How long a thread was away since it came before, in absences too short to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Short {
    /// In waits for devices.
    pub deep_ns: u64,
    pub other_ns: u64,
}

/// Who had the CPU until then.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Before {
    pub tid: u32,
    pub process: u32,
    pub comm: [u8; 16],
}

impl Before {
    fn of(before: u64, name: [u64; 2]) -> Before {
        let (process, tid) = halves(before);
        Before {
            tid,
            process,
            comm: bytemuck::cast(name),
        }
    }
}

impl Leaving {
    fn short(&self) -> Short {
        let ns = |units: u32| u64::from(units) << SHORT_SHIFT;
        Short {
            deep_ns: ns(self.short_device),
            other_ns: ns(self.short_other),
        }
    }

    fn told(&self) -> Told {
        Told::Out {
            state: self.user.state,
            short: self.short(),
            user: self.user,
        }
    }
}

/// The process and the thread of `bpf_get_current_pid_tgid`.
fn halves(current: u64) -> (u32, u32) {
    ((current >> 32) as u32, current as u32)
}

fn waking(by: u64, user: Option<Box<(User, [u8; STACK_BYTES])>>) -> Told {
    let (process, waker) = halves(by);
    Told::Waking {
        waker,
        process,
        user,
    }
}

/// `None` for a record that is cut, or of no kind that is known.
pub fn parse(bytes: &[u8]) -> Option<Record> {
    let (Head { at_ns, kind, tid }, rest) = begins_with(bytes)?;
    let what = match kind {
        WAIT => return whole(bytes),
        OUT => begins_with::<Leaving>(bytes)?.0.told(),
        IN => {
            let (coming, _) = begins_with::<Coming>(rest)?;
            Told::In {
                after: Before::of(coming.before, coming.before_name),
            }
        }
        WAKING => {
            let (by, rest) = begins_with::<u64>(rest)?;
            let stack = begins_with::<WakersStack>(rest).map(|(stack, _)| stack);
            waking(by, stack.map(|of| Box::new((of.user, of.stack))))
        }
        PLACE => {
            let (place, stack) = begins_with::<Place>(rest)?;
            Told::Place {
                user: place.user,
                stack: stack.get(..usize::try_from(place.copied).ok()?)?.to_vec(),
            }
        }
        _ => return None,
    };
    Some(Record { at_ns, tid, what })
}

fn whole(bytes: &[u8]) -> Option<Record> {
    let mut of = Thread::zeroed();
    bytemuck::bytes_of_mut(&mut of)[..WAIT_BYTES].copy_from_slice(bytes.get(..WAIT_BYTES)?);
    let (process, waker) = halves(of.waker);
    Some(Record {
        at_ns: of.came_ns,
        tid: of.leaving.tid,
        what: Told::Whole {
            since_ns: of.leaving.at_ns,
            state: of.leaving.user.state,
            short: of.leaving.short(),
            user: of.leaving.user,
            woken: (of.woken_ns != 0).then_some((of.woken_ns, waker, process)),
            after: Before::of(of.before, of.before_name),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 42 left at 1,000 for a call, was woken at 1,500 by 7 of process 5, came at 2,000 after 9.
    fn thread(since_ns: u64, is_told: u64) -> Thread {
        Thread {
            leaving: Leaving {
                at_ns: 1_000,
                kind: OUT,
                tid: 42,
                short_other: 3,
                short_device: 5,
                user: User {
                    number: 202,
                    state: 1,
                    ..User::default()
                },
            },
            woken_ns: 1_500,
            waker: 5 << 32 | 7,
            came_ns: 2_000,
            before: 8 << 32 | 9,
            since_ns,
            is_told,
            ..Thread::zeroed()
        }
    }

    fn wait() -> Vec<u8> {
        let mut thread = thread(0, 0);
        thread.leaving.kind = WAIT;
        bytemuck::bytes_of(&thread)[..WAIT_BYTES].to_vec()
    }

    #[test]
    fn a_whole_wait_is_one_record() {
        let record = parse(&wait()).unwrap();
        assert_eq!((record.at_ns, record.tid), (2_000, 42));
        let Told::Whole {
            since_ns,
            state,
            short,
            user,
            woken,
            after,
        } = record.what
        else {
            panic!("{record:?}");
        };
        assert_eq!((since_ns, state, user.number), (1_000, 1, 202));
        assert_eq!(
            (short.deep_ns, short.other_ns),
            (5 << SHORT_SHIFT, 3 << SHORT_SHIFT)
        );
        assert_eq!(woken, Some((1_500, 7, 5)));
        assert_eq!((after.tid, after.process), (9, 8));
    }

    #[test]
    fn a_wait_that_lasts_is_given_once_it_is_old_and_was_not_told() {
        let late = 2_000 + UNTOLD_NS;
        let records = thread(1_000, 0).untold(late);
        let times: Vec<_> = records.iter().flatten().map(|r| (r.at_ns, r.tid)).collect();
        assert_eq!(times, [(1_000, 42), (1_500, 42)]);
        for thread in [thread(0, 0), thread(1_000, 1)] {
            assert_eq!(thread.untold(late), [None, None]);
        }
        assert_eq!(thread(1_000, 0).untold(1_800), [None, None]);
    }

    #[test]
    fn the_stack_of_a_place_is_as_long_as_could_be_read() {
        let head = Head {
            at_ns: 1,
            kind: PLACE,
            tid: 2,
        };
        let record = |copied| {
            let place = Place {
                user: User::default(),
                copied,
            };
            [
                bytemuck::bytes_of(&head),
                bytemuck::bytes_of(&place),
                &[7; 2048],
            ]
            .concat()
        };
        let Told::Place { stack, .. } = parse(&record(512)).unwrap().what else {
            panic!("another kind");
        };
        assert_eq!(stack, [7; 512]);
        assert_eq!(parse(&record(4_096)), None, "longer than the record");
    }

    #[test]
    fn a_record_cut_anywhere_is_none() {
        let wait = wait();
        for length in 0..wait.len() {
            assert_eq!(parse(&wait[..length]), None, "{length} bytes");
        }
    }
}

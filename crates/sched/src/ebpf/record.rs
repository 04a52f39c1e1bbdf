//! One record of the ring: as programs/sched.bpf.c writes it, and what it tells.

use bpf::uprobes::record::begins_with;
use bytemuck::{Pod, Zeroable};

/// The bits of `prev_state` that say what a thread leaves for; none: it wants to run. The bit above all others says
/// "preempted".
pub const STATES: u32 = 0xff;
/// Those of one that ends: nobody will wake it, and it never comes back.
pub const GONE: u32 = 0x10 | 0x20;
/// The bit for waits that no signal ends: a disk, a page, the address space.
pub const DEEP: u32 = 2;

/// As much of a waker's stack as is copied.
pub const STACK_BYTES: usize = 256;

/// Short absences are added up in units of 2^10 ns.
const SHORT_SHIFT: u32 = 10;

const OUT: u32 = 1;
const IN: u32 = 2;
const WAKING: u32 = 3;
const PLACE: u32 = 4;
const WAIT: u32 = 5;

/// What each record begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Head {
    at_ns: u64,
    kind: u32,
    tid: u32,
}

/// User registers on entry to the kernel; `number` is the system call, or negative.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
pub struct User {
    pub number: i64,
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub arguments: [u64; 4],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Leaving {
    at_ns: u64,
    kind: u32,
    tid: u32,
    short_other: u32,
    state: u32,
    user: User,
    unused: u32,
    short_device: u32,
}

/// What the kernel keeps of each watched thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Thread {
    leaving: Leaving,
    woken_ns: u64,
    waker: u64,
    since_ns: u64,
    is_told: u64,
    at_work_ns: u64,
    came_ns: u64,
    before: u64,
    before_name: [u64; 2],
    unused: [u64; 4],
}

/// A whole wait is so much of a [`Thread`].
const WAIT_BYTES: usize = std::mem::offset_of!(Thread, unused);

/// Behind the head of a coming.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Coming {
    before: u64,
    before_name: [u64; 2],
}

/// Behind the head of a waking's waker, where its stack is told.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct WakersStack {
    user: User,
    stack: [u8; STACK_BYTES],
}

/// Behind the head of a place; its stack follows.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Place {
    user: User,
    copied: u64,
}

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
            state: self.state,
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
            state: of.leaving.state,
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
    use bpf::object::{Object, sched};

    /// 42 left at 1,000 for a call, was woken at 1,500 by 7 of process 5, came at 2,000 after 9.
    fn thread(since_ns: u64, is_told: u64) -> Thread {
        Thread {
            leaving: Leaving {
                at_ns: 1_000,
                kind: OUT,
                tid: 42,
                short_other: 3,
                state: 1,
                user: User {
                    number: 202,
                    ..User::default()
                },
                unused: 0,
                short_device: 5,
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
    fn records_are_as_the_program_writes_them() {
        let object = Object::parse(sched()).unwrap();
        bpf::assert_layout!(
            object,
            "user",
            User {
                number,
                pc,
                sp,
                fp,
                arguments
            }
        );
        bpf::assert_layout!(
            object,
            "leaving",
            Leaving {
                at_ns,
                kind,
                tid,
                short_other,
                state,
                user,
                unused,
                short_device
            }
        );
        bpf::assert_layout!(
            object,
            "thread",
            Thread {
                leaving,
                woken_ns,
                waker,
                since_ns,
                is_told,
                at_work_ns,
                came_ns,
                before,
                before_name,
                unused
            }
        );
        let behind = |name: &str, first: &str| -> (usize, usize) {
            let structure = object.structure(name).unwrap();
            let field = structure.fields.iter().find(|field| field.0 == first);
            (field.unwrap().1 as usize, structure.bytes as usize)
        };
        let head = size_of::<Head>();
        assert_eq!(
            behind("coming", "before"),
            (head, head + size_of::<Coming>())
        );
        assert_eq!(behind("waking", "waker"), (head, head + 8));
        let stack = size_of::<WakersStack>();
        assert_eq!(behind("waking_stack", "user"), (head + 8, head + 8 + stack));
        assert_eq!(behind("place", "user").0, head);
        assert_eq!(behind("place", "stack").0, head + size_of::<Place>());
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

//! One record of the ring: what the programs write, and its reading.

/// The bits of `prev_state` that say what a thread leaves for; none: it wants to run. The bit above all others says
/// "preempted".
pub const STATES: u32 = 0xff;
/// Those of one that ends: nobody will wake it, and it never comes back.
pub const GONE: u32 = 0x10 | 0x20;

/// Offsets within a record; shared with the programs.
pub mod at {
    pub const TIME: i16 = 0;
    pub const KIND: i16 = 8;
    pub const TID: i16 = 12;
    pub const OTHER: i16 = 16;
    /// Of a leaving: for how long it was away since it last came, in absences too short to be told; those that were
    /// waits for devices have a sum of their own.
    pub const SHORT: i16 = 16;
    pub const SHORT_DEEP: i16 = 92;
    pub const FLAGS: i16 = 20;
    pub const NUMBER: i16 = 24;
    pub const COMM: i16 = 24;
    pub const PC: i16 = 32;
    pub const SP: i16 = 40;
    pub const FP: i16 = 48;
    pub const ARGS: i16 = 56;
    pub const OTHER_PROCESS: i16 = 88;
    /// Of a wake after a long wait: the lower end of the waker's stack. Other records end here.
    pub const STACK: i16 = 96;
    pub const HEAD: i16 = 96 + super::STACK_BYTES as i16;
}

/// The record of a place where a thread begins to wait for a device: that of its leaving, and its stack.
pub mod place {
    /// Bytes of the stack that could be read.
    pub const COPIED: i16 = super::at::FLAGS;
    pub const STACK_BYTES: i16 = 2048;
    pub const WHOLE: i16 = super::at::STACK + STACK_BYTES;
}

/// Offsets within what the kernel keeps of each thread; shared with the programs.
pub mod kept {
    /// The record of its leaving; a whole wait is told from here on.
    pub const RECORD: i16 = 0;
    /// When and by whom (thread, then process) it was made runnable, where that was not told.
    pub const WOKEN: i16 = RECORD + super::at::STACK;
    pub const WAKER: i16 = WOKEN + 8;
    /// Since when the thread is off its CPU; 0 while it is on one.
    pub const SINCE: i16 = WOKEN + 16;
    /// Not 0: its leaving was told.
    pub const TOLD: i16 = WOKEN + 24;
    /// Since when it is at work: it came to a CPU, and at most was taken off it in between.
    pub const AT_WORK: i16 = WOKEN + 32;
    /// When it last came to a CPU, and who had that before (thread, process, name).
    pub const CAME: i16 = WOKEN + 40;
    pub const BEFORE: i16 = WOKEN + 48;
    pub const COMM: i16 = WOKEN + 56;
    /// A whole wait: from leaving to coming back.
    pub const WHOLE: i16 = COMM + 16 - RECORD;
    /// With the 56 bytes that the kernel keeps before it (struct htab_elem of kernel/bpf/hashtab.c and the key) four
    /// cache lines, none of them shared with another thread, which may run on another CPU. What a waker there meets,
    /// from `WOKEN` to `AT_WORK`, is in one.
    pub const BYTES: usize = 200;
}

/// A wait that is older than this will be told of whatever the limit.
const UNTOLD_NS: u64 = 1_500_000;

/// The leaving that is kept of a thread, when it is off its CPU for long and that was not told; and its waking, when
/// it only wants a CPU since. `drained_ns`: when the ring was read.
pub fn untold(value: &[u8; kept::BYTES], drained_ns: u64) -> [Option<Record>; 2] {
    let word = |at: i16| number(value, at);
    let since = word(kept::SINCE);
    let lasts = drained_ns.saturating_sub(since) > UNTOLD_NS;
    if since == 0 || !lasts || word(kept::TOLD) != 0 {
        return [None, None];
    }
    let leaving = parse(&value[kept::RECORD as usize..kept::WOKEN as usize]);
    let waker = word(kept::WAKER);
    let waking = |tid| Record {
        at_ns: word(kept::WOKEN),
        tid,
        what: Told::Waking {
            waker: waker as u32,
            process: (waker >> 32) as u32,
            user: None,
        },
    };
    let woken = word(kept::WOKEN) != 0;
    let tid = leaving.as_ref().map(|leaving| leaving.tid);
    [leaving, tid.filter(|_| woken).map(waking)]
}

fn number(bytes: &[u8], at: i16) -> u64 {
    let at = at as usize;
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// Since when the thread is off its CPU, by what is kept of it.
pub fn off_since_ns(value: &[u8; kept::BYTES]) -> Option<u64> {
    let since = number(value, kept::SINCE);
    (since != 0).then_some(since)
}

/// The bit of `prev_state` for waits that no signal ends: a disk, a page, the address space.
pub const DEEP: u32 = 2;

/// As much of a waker's stack as fits on a program's own (512 bytes, with the keys).
pub const STACK_BYTES: usize = 256;

/// Short absences are added up in units of 2^10 ns.
pub const SHORT_SHIFT: i32 = 10;

pub const OUT: i32 = 1;
pub const IN: i32 = 2;
pub const WAKING: i32 = 3;
pub const PLACE: i32 = 4;

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

/// User registers on entry to the kernel; `number` is the system call, or negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct User {
    pub number: i64,
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub args: [u64; 4],
}

/// `None` for a record of another length or kind.
pub fn parse(bytes: &[u8]) -> Option<Record> {
    if bytes.len() < at::STACK as usize {
        return None;
    }
    let word = |offset: i16| number(bytes, offset);
    let half = |offset: i16| {
        let at = offset as usize;
        let half = bytes.get(at..at + 4).and_then(|half| half.try_into().ok());
        half.map_or(0, u32::from_ne_bytes)
    };
    let user = || User {
        number: word(at::NUMBER) as i64,
        pc: word(at::PC),
        sp: word(at::SP),
        fp: word(at::FP),
        args: std::array::from_fn(|n| word(at::ARGS + 8 * n as i16)),
    };
    if bytes.len() == kept::WHOLE as usize {
        return Some(whole(bytes, half, user()));
    }
    let what = match half(at::KIND) as i32 {
        OUT => Told::Out {
            state: half(at::FLAGS),
            short: short(&half),
            user: user(),
        },
        IN => Told::In {
            after: Before {
                tid: half(at::OTHER),
                process: half(at::OTHER_PROCESS),
                comm: name(bytes, at::COMM),
            },
        },
        WAKING => Told::Waking {
            waker: half(at::OTHER),
            process: half(at::OTHER_PROCESS),
            user: bytes
                .get(at::STACK as usize..at::HEAD as usize)
                .and_then(|stack| Some(Box::new((user(), stack.try_into().ok()?)))),
        },
        PLACE => Told::Place {
            user: user(),
            stack: bytes[at::STACK as usize..]
                .get(..half(place::COPIED) as usize)?
                .to_vec(),
        },
        _ => return None,
    };
    Some(Record {
        at_ns: word(at::TIME),
        tid: half(at::TID),
        what,
    })
}

fn short(half: &impl Fn(i16) -> u32) -> Short {
    let ns = |at| u64::from(half(at)) << SHORT_SHIFT;
    Short {
        deep_ns: ns(at::SHORT_DEEP),
        other_ns: ns(at::SHORT),
    }
}

fn whole(bytes: &[u8], half: impl Fn(i16) -> u32, user: User) -> Record {
    let word = |kept: i16| number(bytes, kept - kept::RECORD);
    let (woken_ns, waker, before) = (word(kept::WOKEN), word(kept::WAKER), word(kept::BEFORE));
    Record {
        at_ns: word(kept::CAME),
        tid: half(at::TID),
        what: Told::Whole {
            since_ns: number(bytes, at::TIME),
            state: half(at::FLAGS),
            short: short(&half),
            user,
            woken: (woken_ns != 0).then_some((woken_ns, waker as u32, (waker >> 32) as u32)),
            after: Before {
                tid: before as u32,
                process: (before >> 32) as u32,
                comm: name(bytes, kept::COMM - kept::RECORD),
            },
        },
    }
}

fn name(bytes: &[u8], at: i16) -> [u8; 16] {
    let at = at as usize;
    let name = bytes.get(at..at + 16).and_then(|name| name.try_into().ok());
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's kept value: 42 left at 1,000 for a call, was woken at 1,500 by 7 of process 5, came at 2,000 after 9.
    fn value(since: u64, told: u64) -> [u8; kept::BYTES] {
        let mut value = [0; kept::BYTES];
        let mut put = |at: i16, word: u64| {
            value[at as usize..at as usize + 8].copy_from_slice(&word.to_ne_bytes());
        };
        put(kept::SINCE, since);
        put(kept::TOLD, told);
        put(kept::RECORD + at::TIME, 1_000);
        put(kept::RECORD + at::KIND, 42 << 32 | OUT as u64);
        put(kept::RECORD + at::SHORT, 1 << 32 | 3);
        put(kept::RECORD + at::SHORT_DEEP - 4, 5 << 32);
        put(kept::RECORD + at::NUMBER, 202);
        put(kept::WOKEN, 1_500);
        put(kept::WAKER, 5 << 32 | 7);
        put(kept::CAME, 2_000);
        put(kept::BEFORE, 8 << 32 | 9);
        value
    }

    #[test]
    fn a_whole_wait_is_one_record() {
        let value = value(0, 0);
        let record = parse(&value[..kept::WHOLE as usize]).unwrap();
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
        let records = untold(&value(1_000, 0), late);
        let times: Vec<_> = records.iter().flatten().map(|r| (r.at_ns, r.tid)).collect();
        assert_eq!(times, [(1_000, 42), (1_500, 42)]);
        for value in [value(0, 0), value(1_000, 1)] {
            assert_eq!(untold(&value, late), [None, None]);
        }
        assert_eq!(untold(&value(1_000, 0), 1_800), [None, None]);
    }

    #[test]
    fn the_stack_of_a_place_is_as_long_as_could_be_read() {
        let mut bytes = [7; place::WHOLE as usize];
        let mut put = |at: i16, half: u32| {
            bytes[at as usize..at as usize + 4].copy_from_slice(&half.to_ne_bytes());
        };
        put(at::KIND, PLACE as u32);
        put(place::COPIED, 512);
        let Told::Place { stack, .. } = parse(&bytes).unwrap().what else {
            panic!("another kind");
        };
        assert_eq!(stack, [7; 512]);
        bytes[place::COPIED as usize + 3] = 1;
        assert_eq!(parse(&bytes), None, "longer than the record");
    }

    #[test]
    fn a_record_cut_anywhere_is_none() {
        let value = value(0, 0);
        let record = &value[..kept::WHOLE as usize];
        for length in 0..at::STACK as usize {
            assert_eq!(parse(&record[..length]), None, "{length} bytes");
        }
    }
}

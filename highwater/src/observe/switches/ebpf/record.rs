//! One record of the ring: what the programs write, and its reading.

/// Offsets within a record; shared with the programs.
pub mod at {
    pub const TIME: i16 = 0;
    pub const KIND: i16 = 8;
    pub const TID: i16 = 12;
    pub const OTHER: i16 = 16;
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

/// Offsets within what the kernel keeps of each thread; shared with the programs.
pub mod kept {
    /// Since when the thread is off its CPU; 0 while it is on one.
    pub const SINCE: i16 = 0;
    /// Not 0: its leaving was told.
    pub const TOLD: i16 = 8;
    /// When and by whom (thread, then process) it was made runnable, where that was not told.
    pub const WOKEN: i16 = 16;
    pub const WAKER: i16 = 24;
    /// The record of its leaving.
    pub const RECORD: i16 = 32;
    pub const BYTES: usize = RECORD as usize + super::at::STACK as usize;
}

/// The leaving that is kept of a thread, when it is off its CPU since before `before_ns` and that was not told.
pub fn untold(value: &[u8; kept::BYTES], before_ns: u64) -> Option<Record> {
    let word = |at: i16| {
        let at = at as usize;
        value[at..at + 8].try_into().map(u64::from_ne_bytes).ok()
    };
    let (since, told) = (word(kept::SINCE)?, word(kept::TOLD)?);
    let waits = since != 0 && since < before_ns && told == 0;
    waits.then(|| parse(&value[kept::RECORD as usize..]))?
}

/// Since when the thread is off its CPU, by what is kept of it.
pub fn off_since_ns(value: &[u8; kept::BYTES]) -> Option<u64> {
    let at = kept::SINCE as usize;
    let since = value[at..at + 8].try_into().map(u64::from_ne_bytes).ok()?;
    (since != 0).then_some(since)
}

/// As much of a waker's stack as fits on a program's own (512 bytes, with the keys).
pub const STACK_BYTES: usize = 256;

pub const OUT: i32 = 1;
pub const IN: i32 = 2;
pub const WAKING: i32 = 3;

#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub at_ns: u64,
    pub tid: u32,
    pub what: Told,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// `state` as `prev_state` has it: 0 is preempted.
    Out { state: u32, user: User },
    /// Who had the CPU until now.
    In {
        before: u32,
        process: u32,
        comm: [u8; 16],
    },
    /// Who woke it; `stack` when the wait was long and the waker is one of ours.
    Waking {
        waker: u32,
        process: u32,
        user: Option<Box<(User, [u8; STACK_BYTES])>>,
    },
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
    let word = |offset: i16| {
        let at = offset as usize;
        bytes[at..at + 8]
            .try_into()
            .map(u64::from_ne_bytes)
            .unwrap_or(0)
    };
    let half = |offset: i16| {
        let at = offset as usize;
        bytes[at..at + 4]
            .try_into()
            .map(u32::from_ne_bytes)
            .unwrap_or(0)
    };
    let user = || User {
        number: word(at::NUMBER) as i64,
        pc: word(at::PC),
        sp: word(at::SP),
        fp: word(at::FP),
        args: std::array::from_fn(|n| word(at::ARGS + 8 * n as i16)),
    };
    let what = match half(at::KIND) as i32 {
        OUT => Told::Out {
            state: half(at::FLAGS),
            user: user(),
        },
        IN => Told::In {
            before: half(at::OTHER),
            process: half(at::OTHER_PROCESS),
            comm: bytes[at::COMM as usize..at::COMM as usize + 16]
                .try_into()
                .ok()?,
        },
        WAKING => Told::Waking {
            waker: half(at::OTHER),
            process: half(at::OTHER_PROCESS),
            user: bytes
                .get(at::STACK as usize..at::HEAD as usize)
                .and_then(|stack| Some(Box::new((user(), stack.try_into().ok()?)))),
        },
        _ => return None,
    };
    Some(Record {
        at_ns: word(at::TIME),
        tid: half(at::TID),
        what,
    })
}

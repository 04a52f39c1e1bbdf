//! What programs/sched.bpf.c writes, as it lies in memory.

use bytemuck::{Pod, Zeroable};

/// As much of a waker's stack as is copied.
pub const STACK_BYTES: usize = 256;

/// Short absences are added up in units of 2^10 ns.
pub(super) const SHORT_SHIFT: u32 = 10;

pub(super) const OUT: u32 = 1;
pub(super) const IN: u32 = 2;
pub(super) const WAKING: u32 = 3;
pub(super) const PLACE: u32 = 4;
pub(super) const WAIT: u32 = 5;

/// What each record begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Head {
    pub(super) at_ns: u64,
    pub(super) kind: u32,
    pub(super) tid: u32,
}

/// User registers on entry to the kernel; `number` is the system call, or negative. `state`: what the thread leaves its
/// CPU in. `link`: the link register, which x86_64 does not have (there it is the program counter).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
pub struct User {
    pub number: i32,
    pub state: u32,
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub link: u64,
    pub arguments: [u64; 4],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Leaving {
    pub(super) at_ns: u64,
    pub(super) kind: u32,
    pub(super) tid: u32,
    pub(super) short_other: u32,
    pub(super) short_device: u32,
    pub(super) user: User,
}

/// What the kernel keeps of each watched thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct Thread {
    pub(super) leaving: Leaving,
    pub(super) woken_ns: u64,
    pub(super) waker: u64,
    pub(super) since_ns: u64,
    pub(super) is_told: u64,
    pub(super) at_work_ns: u64,
    pub(super) came_ns: u64,
    pub(super) before: u64,
    pub(super) before_name: [u64; 2],
    pub(super) unused: [u64; 4],
}

/// A whole wait is so much of a [`Thread`].
pub(super) const WAIT_BYTES: usize = std::mem::offset_of!(Thread, unused);

/// Behind the head of a coming.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Coming {
    pub(super) before: u64,
    pub(super) before_name: [u64; 2],
}

/// Behind the head of a waking's waker, where its stack is told.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct WakersStack {
    pub(super) user: User,
    pub(super) stack: [u8; STACK_BYTES],
}

/// Behind the head of a place; its stack follows.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Place {
    pub(super) user: User,
    pub(super) copied: u64,
}

/// Of a walk of frames of Python, which follow.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct PythonHead {
    pub(super) at_ns: u64,
    pub(super) tid: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::object::{Object, sched};

    #[test]
    fn records_are_as_the_program_writes_them() {
        let object = Object::parse(sched()).unwrap();
        bpf::assert_layout!(
            object,
            "user",
            User {
                number,
                state,
                pc,
                sp,
                fp,
                link,
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
                short_device,
                user
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
        assert_eq!(behind("python_sample", "tid").0, 8);
        let frames = bpf::python::FRAMES * size_of::<bpf::python::PythonFrame>();
        let python = size_of::<PythonHead>();
        assert_eq!(behind("python_sample", "frames"), (python, python + frames));
    }
}

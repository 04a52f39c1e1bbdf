//! Where a sample comes from: its stack, the objects that its frames lie in, the role of its
//! thread.

use abi::{MODULE_PATH_BYTES, Module, ROLE_NONE, STACK_NONE, Thread, stack_flag, stack_why};

use crate::clock;
use crate::counter::counter;
use crate::guard::Signals;
use crate::interpreter;
use crate::modules::Object;
use crate::objects::Change;
use crate::probe::Probe;
use crate::unwind::{Registers, Trace};
use sampler::roles;

/// What a trace says of its thread and its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Start of the outermost function outside the C library, or 0.
    root: u64,
    /// Start of the object of the innermost frame, or 0.
    pub(crate) caller_object: u64,
}

impl Origin {
    fn of(trace: &Trace) -> Origin {
        Origin {
            root: trace.root,
            caller_object: trace.caller_object,
        }
    }
}

impl Probe {
    /// The row of the stack from `registers`; a stack that cannot be had is a row too, so that its
    /// bytes are not lost.
    pub(crate) fn stack(&self, registers: Registers, now_ns: u64) -> (u32, Option<Origin>) {
        let mut on_change = |change| self.note(change, now_ns);
        let traced = self.unwinder.trace(registers, &mut on_change, |trace| {
            self.row_of(trace, now_ns)
        });
        traced.unwrap_or_else(|| {
            self.count(counter!(self, stacks_contended));
            (self.no_stack(stack_why::CONTENDED, now_ns), None)
        })
    }

    fn row_of(&self, trace: &mut Trace, now_ns: u64) -> (u32, Option<Origin>) {
        if trace.flags & stack_flag::BROKEN != 0 {
            self.count(counter!(self, stacks_broken));
        }
        if trace.frames().is_empty() {
            return (self.no_stack(stack_why::UNREADABLE, now_ns), None);
        }
        if let Some(python) = &self.python {
            let mut functions = [0; interpreter::DEPTH_MAX];
            let count = python.functions(&mut functions);
            if count > 0 {
                trace.end_with(&functions[..count], interpreter::NATIVE_MAX);
            }
        }
        let row = self
            .stacks
            .find(trace.frames(), trace.flags, now_ns)
            .unwrap_or_else(|| {
                self.count(counter!(self, stacks_dropped));
                self.no_stack(stack_why::TABLE_FULL, now_ns)
            });
        (row, Some(Origin::of(trace)))
    }

    pub(crate) fn no_stack(&self, why: u64, now_ns: u64) -> u32 {
        self.stacks
            .find(&[why], stack_flag::NOT_A_STACK, now_ns)
            .unwrap_or(STACK_NONE)
    }

    /// The role of a thread, found at its first sample.
    pub(crate) unsafe fn role(&self, row: *mut Thread, origin: Option<Origin>) -> u16 {
        // SAFETY: by the caller: an own row is written by its thread alone; of the shared one nothing is written.
        unsafe {
            if row == self.overflow() {
                return roles::OTHER;
            }
            if (*row).role == ROLE_NONE {
                (*row).role = if u64::from((*row).tid) == (*self.header).pid {
                    self.roles.join(roles::MAIN)
                } else {
                    self.roles
                        .find(thread_name(), origin.map_or(0, |origin| origin.root))
                };
            }
            (*row).role
        }
    }

    /// Likewise for a thread that only frees: its stack is wanted once.
    pub(crate) unsafe fn role_of_freeing(&self, row: *mut Thread, registers: Registers) -> u16 {
        // SAFETY: as for `role`.
        unsafe {
            let known = row == self.overflow() || (*row).role != ROLE_NONE;
            if known {
                return self.role(row, None);
            }
            let Some(_signals) = Signals::block() else {
                return roles::OTHER;
            };
            let now = clock::monotonic_ns();
            let mut on_change = |change| self.note(change, now);
            let origin = self
                .unwinder
                .trace(registers, &mut on_change, |trace| Origin::of(trace));
            self.role(row, origin)
        }
    }

    /// Keeps the modules section as the loader's objects are: a row for each object, and when it went.
    pub(crate) fn note(&self, change: Change, now_ns: u64) {
        // SAFETY: the unwinder's lock makes this the only writer of the section.
        unsafe {
            let (bytes, refused) = self.unwinder.memory();
            (*self.header).counters.unwinder_bytes = bytes;
            (*self.header).counters.unwinder_refused = refused;
            match change {
                Change::Gone(object) => self.modules.gone(object.start, object.end, now_ns),
                Change::There(object) => {
                    if !self.modules.there(&row_of_object(object, now_ns)) {
                        self.count(counter!(self, modules_dropped));
                    }
                }
            }
        }
    }
}

/// The row of an object.
fn row_of_object(object: Object, now_ns: u64) -> Module {
    let mut path = [0; MODULE_PATH_BYTES];
    let (bytes, bias) = object.name_and_bias(&mut path);
    Module {
        start: object.start,
        end: object.end,
        bias,
        first_ns: now_ns,
        gone_ns: 0,
        path_bytes: bytes as u32,
        reserved: 0,
        path,
    }
}

/// Name of this thread, zero-padded; zeros when the kernel will not say.
fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

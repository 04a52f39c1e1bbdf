//! Stacks of a Go program as frames.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use observe::fact::memory::Memory;
use symbols::frame::Frame;

use super::budget::Budget;
use symbols::golang::binary::Binary;
use symbols::golang::pclntab::{Call, Table};

/// Addresses whose functions are remembered; about 200 bytes each.
const KEPT_MAX: usize = 100_000;

pub struct Names<'a, M> {
    pub table: Table<M>,
    binary: &'a Binary,
    known: RefCell<HashMap<u64, Rc<[Call]>>>,
}

impl<'a, M: Memory> Names<'a, M> {
    pub fn new(table: Table<M>, binary: &'a Binary) -> Names<'a, M> {
        Names {
            table,
            binary,
            known: RefCell::default(),
        }
    }

    /// The functions of a stack of return addresses, innermost first. The runtime's own at its inner end (the
    /// allocator, the scheduler) are left out as pprof does, unless there are no others; so is `runtime.goexit`.
    pub fn frames(&self, stack: &[u64], budget: &mut Budget) -> Vec<Frame> {
        let mut frames = self.all_frames(stack, budget);
        let is_of = |frame: &Frame, test: &dyn Fn(&str) -> bool| {
            frame.function.as_deref().is_some_and(test)
        };
        if frames
            .last()
            .is_some_and(|last| is_of(last, &|name| name == "runtime.goexit"))
        {
            frames.pop();
        }
        let inner = frames
            .iter()
            .take_while(|frame| is_of(frame, &is_runtime))
            .count();
        if inner < frames.len() {
            frames.drain(..inner);
        }
        frames
    }

    /// One function: the innermost at a return address.
    pub fn frame(&self, return_address: u64) -> Option<Frame> {
        let calls = self.calls(return_address);
        calls.first().map(|call| self.frame_of(call))
    }

    /// A stack that the runtime has recorded names the callers of inlined functions by addresses of their own: they
    /// are found already, and skipped.
    /// Ends where the budget does.
    fn all_frames(&self, stack: &[u64], budget: &mut Budget) -> Vec<Frame> {
        let (mut frames, mut rest) = (Vec::new(), stack);
        while let [first, others @ ..] = rest {
            rest = others;
            if !budget.step() {
                break;
            }
            let calls = self.calls(*first);
            if calls.is_empty() {
                frames.push(self.unknown(*first));
            }
            for (index, call) in calls.iter().enumerate() {
                if index > 0 && rest.first() == Some(&call.at.wrapping_add(1)) {
                    rest = &rest[1..];
                }
                // The runtime leaves wrappers out, too.
                if frames.is_empty() || !call.is_wrapper {
                    frames.push(self.frame_of(call));
                }
            }
        }
        frames
    }

    fn calls(&self, return_address: u64) -> Rc<[Call]> {
        if let Some(calls) = self.known.borrow().get(&return_address) {
            return Rc::clone(calls);
        }
        let calls: Rc<[Call]> = self.table.calls(self.call_before(return_address)).into();
        let mut known = self.known.borrow_mut();
        if known.len() == KEPT_MAX {
            known.clear();
        }
        known.insert(return_address, Rc::clone(&calls));
        calls
    }

    /// A return address may be behind the last instruction of its function. A goroutine that has not run yet stands
    /// at its first one.
    fn call_before(&self, return_address: u64) -> u64 {
        let function = self.table.function(return_address);
        match function.is_some_and(|function| function.entry == return_address) {
            true => return_address,
            false => return_address.saturating_sub(1),
        }
    }

    /// Frames on one line of a function are equal, in this snapshot and in others: an address is only in one without a
    /// name.
    fn frame_of(&self, call: &Call) -> Frame {
        Frame {
            function: Some(call.name.clone()).filter(|name| !name.is_empty()),
            file: call.file.clone(),
            line: call.line,
            module: self.binary.path.clone(),
            offset: if call.name.is_empty() {
                self.binary.offset(call.at)
            } else {
                0
            },
            inlined: call.is_inlined,
            left: false,
        }
    }

    /// Code that is not Go's: C of a cgo program, or a plugin.
    fn unknown(&self, address: u64) -> Frame {
        Frame {
            offset: address,
            ..Frame::default()
        }
    }
}

/// Of the runtime, by its name.
pub fn is_runtime(function: &str) -> bool {
    function.starts_with("runtime.") || function.starts_with("internal/runtime/")
}

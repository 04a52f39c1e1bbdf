//! From a frame of Java to the one that called it, x86-64 (`frame_x86.hpp`, `frame_x86.inline.hpp`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blob::{Blob, Kind};
use super::layout::Layout;
use super::method::{index_of, is_method};
use super::scopes::{Inlined, methods};
use super::tagged;
use crate::memory::Memory;

/// Code is freed and its place used again: what is known of a place is asked again after this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);
const KNOWN_MAX: usize = 8_192;

/// Of an interpreted frame, from its frame pointer.
const METHOD: u64 = 24;
const BYTECODE: u64 = 64;
const SENDER_SP: u64 = 8;

/// Reads frames of Java of one process.
pub struct HotSpot {
    memory: Memory,
    layout: Layout,
    known: HashMap<u64, Arc<Code>>,
    /// Whether an address was that of a method.
    methods: HashMap<u64, bool>,
    since: Instant,
}

/// Registers of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    /// `pc` is where a call returns to.
    pub returns: bool,
}

/// What is known of a place in the code.
struct Code {
    kind: Kind,
    frame_bytes: u64,
    /// The code before it has not made its frame yet.
    has_frame: bool,
    methods: Vec<Inlined>,
}

impl HotSpot {
    /// `None`: no HotSpot, or not one that can be read.
    pub fn of(pid: u32) -> Option<HotSpot> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        Some(HotSpot {
            memory: Memory { pid },
            layout: Layout::of(pid)?,
            known: HashMap::new(),
            methods: HashMap::new(),
            since: Instant::now(),
        })
    }

    /// Whether an address is in code that the JVM makes.
    pub fn is_code(&self, pc: u64) -> bool {
        (self.layout.low..self.layout.high).contains(&pc)
    }

    /// The caller of a frame of Java; its methods are put into `frames`, innermost first. `read`: a word of the stack.
    pub fn step(
        &mut self,
        at: State,
        read: &mut dyn FnMut(u64) -> Option<u64>,
        frames: &mut Vec<u64>,
    ) -> Option<State> {
        let code = self.code(at)?;
        frames.extend(
            code.methods
                .iter()
                .map(|(method, index)| tagged(*method, *index)),
        );
        let by_frame_pointer = |sp, read: &mut dyn FnMut(u64) -> Option<u64>| {
            let (pc, fp) = (read(at.fp.checked_add(8)?)?, read(at.fp)?);
            Some(State {
                pc,
                sp,
                fp,
                returns: true,
            })
        };
        let caller = match code.kind {
            Kind::Compiled | Kind::Runtime if code.has_frame => {
                let sp = at.sp.checked_add(code.frame_bytes)?;
                State {
                    pc: read(sp.checked_sub(8)?)?,
                    fp: read(sp.checked_sub(16)?)?,
                    sp,
                    returns: true,
                }
            }
            Kind::Interpreter => {
                frames.extend(self.interpreted(at.fp, read));
                let sp = read(at.fp.checked_sub(SENDER_SP)?)?;
                by_frame_pointer(sp, read)?
            }
            Kind::Stub => by_frame_pointer(at.fp.checked_add(16)?, read)?,
            // The return address is on top.
            _ => State {
                pc: read(at.sp)?,
                sp: at.sp.checked_add(8)?,
                fp: at.fp,
                returns: true,
            },
        };
        // A stack grows down; a caller that lies further in is no caller.
        (caller.sp > at.sp).then_some(caller)
    }

    fn interpreted(&mut self, fp: u64, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<u64> {
        let method = read(fp.checked_sub(METHOD)?)?;
        let (memory, layout) = (self.memory, &self.layout);
        let is_known = self.methods.entry(method);
        if !*is_known.or_insert_with(|| is_method(memory, layout, method)) {
            return None;
        }
        let bytecode = fp.checked_sub(BYTECODE).and_then(read);
        let index = bytecode.and_then(|at| index_of(memory, layout, method, at));
        Some(tagged(method, index))
    }

    fn code(&mut self, at: State) -> Option<Arc<Code>> {
        if self.since.elapsed() > KNOWN_FOR || self.known.len() == KNOWN_MAX {
            self.known.clear();
            self.methods.clear();
            self.since = Instant::now();
        }
        if self.methods.len() > KNOWN_MAX {
            self.methods.clear();
        }
        let key = at.pc << 1 | u64::from(at.returns);
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let code = Arc::new(self.read_code(at)?);
        self.known.insert(key, code.clone());
        Some(code)
    }

    fn read_code(&self, at: State) -> Option<Code> {
        let place = at.pc - u64::from(at.returns);
        let blob = Blob::around(self.memory, &self.layout, place)?;
        let offset = at.pc.saturating_sub(blob.code);
        let mut found = match blob.kind {
            Kind::Compiled => methods(self.memory, &self.layout, &blob, offset),
            _ => Vec::new(),
        };
        found.retain(|(method, _)| is_method(self.memory, &self.layout, *method));
        let is_complete = blob.complete.is_some_and(|complete| offset >= complete);
        Some(Code {
            kind: blob.kind,
            frame_bytes: blob.frame_bytes,
            has_frame: blob.frame_bytes > 0
                && (at.returns || is_complete || blob.kind == Kind::Runtime),
            methods: found,
        })
    }
}

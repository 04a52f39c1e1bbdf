//! From (pc, sp, fp) and a piece of stack to return addresses: framehop over the subject's own
//! `.eh_frame`, the thread not stopped.

use std::collections::HashMap;
use std::ops::Range;

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};
use procfs::process::{MMPermissions, MMapPath, MemoryMaps, Process};

use super::hotspot::{HotSpot, State};
use super::managed::is_managed;
use super::memory::{Block, Memory};
use super::tables::Bytes;
use super::unwind_tables::{self, UnwindTables};
use super::v8::{Mapped, V8};
use crate::call_site::{CALL_BYTES, Target, target_before};
use crate::registers::Registers;
use crate::signed::{address_in, frame_pointer, native};

/// Frames of one stack; of threads that run Java or JavaScript, whose frameworks call each other deeply, more.
pub const FRAMES_MAX: usize = 64;
const MANAGED_FRAMES_MAX: usize = 128;
/// A JVM that begins has not described itself yet: it is asked again so often.
const HOTSPOT_SOUGHT_MAX: u32 = 20;
/// Bytes of a blocked thread's stack read at once; of deeper ones the rest is read in blocks.
const STACK_BYTES: usize = 8 * 1024;
/// Libraries whose unwind tables are kept; further ones are walked by frame pointers.
const MODULES_MAX: usize = 256;

/// What a function may use below the stack pointer (System V ABI, x86-64).
const RED_ZONE_BYTES: u64 = 128;

/// Of a function without unwind tables: its frame, and its code.
const FRAME_BYTES_MAX: usize = 512;
const FUNCTION_BYTES_MAX: u64 = 4096;

pub struct Stacks {
    memory: Memory,
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    modules: HashMap<(String, u64), ()>,
    tables: Vec<UnwindTables>,
    /// Whether a place in the code has a frame whose end is kept in memory.
    ends_in_memory: HashMap<u64, bool>,
    code: Vec<Range<u64>>,
    files: Vec<(Range<u64>, String)>,
    hotspot: Option<HotSpot>,
    hotspot_sought: u32,
    v8: Option<V8>,
    /// The program that V8 was looked for in.
    v8_sought: Option<String>,
}

impl Stacks {
    pub fn new(pid: u32) -> Stacks {
        let mut stacks = Stacks {
            memory: Memory { pid },
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            modules: HashMap::new(),
            tables: Vec::new(),
            ends_in_memory: HashMap::new(),
            code: Vec::new(),
            files: Vec::new(),
            hotspot: None,
            hotspot_sought: 0,
            v8: None,
            v8_sought: None,
        };
        stacks.reload();
        stacks
    }

    /// Takes up what was mapped since.
    pub fn reload(&mut self) {
        let pid = self.memory.pid;
        let Ok(maps) = Process::new(pid as i32).and_then(|process| process.maps()) else {
            return;
        };
        self.code.clear();
        self.files.clear();
        self.ends_in_memory.clear();
        for map in &maps {
            if let MMapPath::Path(path) = &map.pathname {
                let range = map.address.0..map.address.1;
                self.files
                    .push((range, path.to_string_lossy().into_owned()));
            }
            if !map.perms.contains(MMPermissions::EXECUTE) {
                continue;
            }
            self.code.push(map.address.0..map.address.1);
            let MMapPath::Path(path) = &map.pathname else {
                continue;
            };
            let path = path.to_string_lossy().into_owned();
            let key = (path.clone(), map.address.0);
            if self.modules.len() < MODULES_MAX && !self.modules.contains_key(&key) {
                self.modules.insert(key, ());
                let (start, end) = map.address;
                // The first leads to the very file, replaced by another or not, and needs privileges.
                let paths = [
                    format!("/proc/{pid}/map_files/{start:x}-{end:x}"),
                    format!("/proc/{pid}/root{path}"),
                ];
                let read = |path: &String| unwind_tables::read(path, start..end, map.offset);
                if let Some((module, tables)) = paths.iter().find_map(read) {
                    self.unwinder.add_module(module);
                    self.tables.extend(tables);
                }
            }
        }
        self.find_hotspot();
        self.find_v8(&maps);
    }

    fn find_hotspot(&mut self) {
        let mut files = self.files.iter();
        let is_there = files.any(|(_, path)| path.ends_with("/libjvm.so"));
        if is_there && self.hotspot.is_none() && self.hotspot_sought < HOTSPOT_SOUGHT_MAX {
            self.hotspot_sought += 1;
            self.hotspot = HotSpot::of(self.memory.pid);
        }
    }

    fn find_v8(&mut self, maps: &MemoryMaps) {
        let pid = self.memory.pid;
        let program = format!("/proc/{pid}/exe");
        let library = self.files.iter().map(|(_, path)| path.as_str());
        let library = library.filter(|path| path.contains("/libnode.so")).min();
        let found = match library {
            Some(library) => Some((library.to_owned(), format!("/proc/{pid}/root{library}"))),
            None => std::fs::read_link(&program)
                .ok()
                .and_then(|exe| Some((exe.to_str()?.to_owned(), program))),
        };
        let path = found.as_ref().map(|(path, _)| path.clone());
        if path.is_some() && path != self.v8_sought {
            self.v8 = found.and_then(|(path, reachable)| V8::of(pid, &path, &reachable));
            self.v8_sought = path;
        }
        if let Some(v8) = &mut self.v8 {
            v8.reload(maps.iter().map(Mapped::from));
        }
    }

    /// Whether stacks have functions that a runtime runs ([`super::managed`]).
    pub fn reads_managed(&self) -> bool {
        self.hotspot.is_some() || self.v8.is_some()
    }

    /// The file mapped at an address; `None` for anonymous memory.
    pub fn file_at(&self, address: u64) -> Option<&str> {
        let mapped = self
            .files
            .iter()
            .find(|(range, _)| range.contains(&address));
        mapped.map(|(_, path)| path.as_str())
    }

    pub fn is_code(&self, address: u64) -> bool {
        // As in /proc/PID/maps: sorted, and none within another.
        let after = self.code.partition_point(|range| range.start <= address);
        let is_mapped = after > 0 && self.code[after - 1].contains(&address);
        is_mapped || self.is_jit(address)
    }

    fn is_jit(&self, address: u64) -> bool {
        let v8 = self.v8.as_ref();
        self.is_of_hotspot(address) || v8.is_some_and(|v8| v8.is_code(address))
    }

    fn is_of_hotspot(&self, address: u64) -> bool {
        let hotspot = self.hotspot.as_ref();
        hotspot.is_some_and(|hotspot| hotspot.is_code(address))
    }

    /// One number for all that a copy of a stack says about its calls: pc, sp, and where in it which
    /// addresses of code lie. Two stacks of one number are the same calls.
    pub fn fingerprint(&self, regs: Registers, stack: &[u8]) -> u64 {
        let words = stack.chunks_exact(8).enumerate();
        let words =
            words.map(|(at, word)| (at, u64::from_ne_bytes(word.try_into().unwrap_or_default())));
        let code = words.filter(|(_, word)| self.is_code(address_in(*word)));
        code.fold(mixed(regs.pc, regs.sp), |sum, (at, word)| {
            mixed(sum ^ at as u64, word)
        })
    }

    /// A thread that is off its CPU: its stack does not change while it waits.
    pub fn of_blocked(&mut self, regs: Registers) -> Vec<u64> {
        let stack = self.memory.stretch(regs.sp, STACK_BYTES);
        self.of_bytes(regs, &stack)
    }

    /// From a copy of the stack that begins at `regs.sp`. Innermost address first.
    pub fn of_bytes(&mut self, regs: Registers, stack: &[u8]) -> Vec<u64> {
        let innermost = FrameAddress::from_instruction_pointer(regs.pc);
        self.walk(innermost, regs, stack, true)
    }

    /// As [`Stacks::of_bytes`], where `regs.pc` is a return address and the stack is another's by now: the walk ends
    /// where the copy does.
    pub fn of_copy(&mut self, regs: Registers, stack: &[u8]) -> Vec<u64> {
        let innermost = FrameAddress::from_return_address(regs.pc);
        innermost.map_or_else(Vec::new, |at| self.walk(at, regs, stack, false))
    }

    fn walk(
        &mut self,
        mut address: FrameAddress,
        regs: Registers,
        stack: &[u8],
        reads_on: bool,
    ) -> Vec<u64> {
        // Past the copy: what lies further out hardly changes. Read a block at a time: each reading
        // is a system call of more than a microsecond, however short.
        let mut beyond = Block::default();
        let memory = self.memory;
        let mut read = |address: u64| -> Result<u64, ()> {
            let Some(at) = address.checked_sub(regs.sp) else {
                let is_red = reads_on && regs.sp - address <= RED_ZONE_BYTES;
                return is_red.then(|| memory.long(address)).flatten().ok_or(());
            };
            let at = at as usize;
            let end = at.checked_add(8).ok_or(())?;
            match stack.get(at..end) {
                Some(bytes) => Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| ())?)),
                None if reads_on => beyond.word(memory, address).ok_or(()),
                None => Err(()),
            }
        };
        let mut frames = Vec::new();
        let most = match self.reads_managed() {
            true => MANAGED_FRAMES_MAX,
            false => FRAMES_MAX,
        };
        let mut at = native(regs);
        // A routine of a runtime's may add no frame: the steps are bounded too.
        for _ in 0..2 * most {
            if frames.len() >= most {
                break;
            }
            let pc = address.address_for_lookup();
            if is_managed(pc) {
                // No address of a program: a number on the stack that looks like one of ours.
                break;
            }
            let next = match self.is_of_hotspot(pc) {
                true => self.java_caller(address, &mut at, &mut read, &mut frames),
                false => self.native_caller(address, &mut at, &mut read, &mut frames),
            };
            let Some(returns) = next.and_then(FrameAddress::from_return_address) else {
                break;
            };
            address = returns;
        }
        // A walk that left the code has lost its way: what comes after is chance.
        let is_sound = |pc: &&u64| is_managed(**pc) || self.is_code(**pc);
        let sound = frames.iter().skip(1).take_while(is_sound).count() + 1;
        frames.truncate(sound);
        frames
    }

    /// Where a frame returns to, with the registers of its caller: one of JavaScript or of the program's files.
    fn native_caller(
        &mut self,
        address: FrameAddress,
        at: &mut UnwindRegsNative,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
        frames: &mut Vec<u64>,
    ) -> Option<u64> {
        let pc = address.address_for_lookup();
        let v8 = self.v8.as_mut().filter(|v8| v8.is_code(pc));
        let fp = frame_pointer(at);
        if let Some(caller) = v8.and_then(|v8| v8.step(pc, fp, &mut |word| read(word).ok(), frames))
        {
            // A stack grows down; a caller that lies further in is no caller.
            let is_further_out = caller.sp > at.sp();
            *at = native(Registers {
                pc: caller.pc,
                sp: caller.sp,
                fp: caller.fp,
                lr: 0,
            });
            return is_further_out.then_some(caller.pc);
        }
        frames.push(pc);
        if !address.is_return_address() && self.ends_in_memory.get(&pc) != Some(&false) {
            let caller = self.caller_by_memory(pc, at, &mut |word| read(word).ok());
            if let Some(caller) = caller {
                *at = native(caller);
                return Some(caller.pc);
            }
        }
        let unwound = self
            .unwinder
            .unwind_frame(address, at, &mut self.cache, read);
        unwound.ok().flatten()
    }

    /// Of the innermost frame: the unwinder reads none whose end is kept in memory.
    fn caller_by_memory(
        &mut self,
        pc: u64,
        at: &UnwindRegsNative,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<Registers> {
        const PLACES_MAX: usize = 8_192;
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let registers = Registers {
            pc,
            sp: at.sp(),
            fp: frame_pointer(at),
            lr: 0,
        };
        // The newest: another file may have been there before.
        let tables = self.tables.iter().rev().find(|tables| tables.contains(pc));
        let caller = tables.and_then(|tables| tables.caller(registers, read));
        if self.ends_in_memory.len() == PLACES_MAX {
            self.ends_in_memory.clear();
        }
        self.ends_in_memory.insert(pc, caller.is_some());
        caller.flatten()
    }

    /// Where a frame of Java returns to, with the registers of its caller.
    fn java_caller(
        &mut self,
        address: FrameAddress,
        at: &mut UnwindRegsNative,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
        frames: &mut Vec<u64>,
    ) -> Option<u64> {
        let state = State {
            pc: address.address(),
            sp: at.sp(),
            fp: frame_pointer(at),
            returns: address.is_return_address(),
        };
        let caller = self
            .hotspot
            .as_mut()?
            .step(state, &mut |word| read(word).ok(), frames)?;
        *at = native(Registers {
            pc: caller.pc,
            sp: caller.sp,
            fp: caller.fp,
            lr: 0,
        });
        Some(caller.pc)
    }

    /// As [`Stacks::of_bytes`], also where the innermost function has no unwind tables (musl's have none): its frame
    /// ends at the first word that returns from a call of that very function.
    pub fn of_bytes_called(&mut self, regs: Registers, stack: &[u8]) -> Vec<u64> {
        let mut frames = self.of_bytes(regs, stack);
        if frames.len() > 1 {
            return frames;
        }
        let words = stack.chunks_exact(8).take(FRAME_BYTES_MAX / 8);
        let mut words =
            words.map(|word| address_in(u64::from_ne_bytes(word.try_into().unwrap_or_default())));
        let Some(at) = words.position(|word| self.returns_from(word, regs.pc)) else {
            return frames;
        };
        let (inner, outer) = stack.split_at(8 * (at + 1));
        let returned = inner[8 * at..].try_into().map_or(0, u64::from_ne_bytes);
        let returned = address_in(returned);
        let caller = Registers {
            pc: returned,
            sp: regs.sp + inner.len() as u64,
            ..regs
        };
        let outer = self.of_bytes(caller, outer);
        frames.push(returned - 1);
        frames.extend(outer.into_iter().skip(1));
        frames
    }

    /// Whether a call that returns there was one of the function around `pc`, which begins before it and not far.
    fn returns_from(&self, address: u64, pc: u64) -> bool {
        let mut code = [0; CALL_BYTES];
        let Some(from) = address.checked_sub(CALL_BYTES as u64) else {
            return false;
        };
        if !self.is_code(from) || self.memory.read(from, &mut code).is_err() {
            return false;
        }
        let target = target_before(&code, address);
        matches!(target, Some(Target::Function(start)) if (start..start + FUNCTION_BYTES_MAX).contains(&pc))
    }

    /// As [`Stacks::of_blocked`], when the frame pointer is not known (/proc tells pc and sp only):
    /// each word of the stack that could be a saved frame pointer is tried, and the longest walk
    /// wins.
    pub fn of_blocked_without_fp(&mut self, regs: Registers) -> Vec<u64> {
        let stack = self.memory.stretch(regs.sp, STACK_BYTES);
        let mut best = self.of_bytes(regs, &stack);
        const TRIED_BYTES: usize = 1024;
        /// Walks of a runtime's stack are longer, and more words look like a beginning.
        const MANAGED_TRIED_MAX: usize = 16;
        let mut tried_most = match self.reads_managed() {
            true => MANAGED_TRIED_MAX,
            false => usize::MAX,
        };
        let end = regs.sp + stack.len() as u64;
        for at in (0..stack.len().min(TRIED_BYTES).saturating_sub(16)).step_by(8) {
            let word = |at: usize| {
                let bytes = stack[at..at + 8].try_into().unwrap_or([0; 8]);
                u64::from_ne_bytes(bytes)
            };
            let (saved, returned) = (word(at), address_in(word(at + 8)));
            let here = regs.sp + at as u64;
            if saved <= here || saved >= end || !self.is_code(returned) {
                continue;
            }
            if tried_most == 0 {
                break;
            }
            tried_most -= 1;
            let inner = self.of_bytes(Registers { fp: here, ..regs }, &stack);
            let outer = self.of_leaf(regs, &stack, saved, returned);
            for tried in [inner, outer] {
                if tried.len() > best.len() {
                    best = tried;
                }
            }
        }
        best
    }

    /// On aarch64 a function that calls none keeps its return address in a register, which /proc does not have: the
    /// walk goes on from the first frame record (frame pointer, return address). The function that wrote the record is
    /// missing.
    #[cfg(target_arch = "aarch64")]
    fn of_leaf(&mut self, regs: Registers, stack: &[u8], saved: u64, returned: u64) -> Vec<u64> {
        let caller = Registers {
            pc: returned,
            // gcc has the record at the lower end of the frame; clang finds the frame by the pointer alone.
            sp: saved,
            fp: saved,
            lr: 0,
        };
        let outer = stack
            .get((saved - regs.sp) as usize..)
            .map(|stack| self.of_bytes(caller, stack));
        let outer = outer.unwrap_or_default().into_iter().skip(1);
        [regs.pc, returned - 1].into_iter().chain(outer).collect()
    }

    /// Elsewhere the return address is on the stack.
    #[cfg(not(target_arch = "aarch64"))]
    fn of_leaf(&mut self, _: Registers, _: &[u8], _: u64, _: u64) -> Vec<u64> {
        Vec::new()
    }
}

/// Two numbers as one in which every bit counts.
fn mixed(one: u64, other: u64) -> u64 {
    let product =
        u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ (product >> 64) as u64
}

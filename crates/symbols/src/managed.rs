//! Functions that a runtime runs, as they stand in a stack: not by an address of code, but by a number above those of
//! user space (bit 62 set, bit 63 not).

use crate::frame::Frame;
use crate::hotspot::{self, JavaMethods};
use crate::v8;

/// Whether an address of a stack is a function that a runtime runs.
pub fn is_managed(address: u64) -> bool {
    hotspot::is_java(address) || v8::is_javascript(address)
}

/// The same without the place in the function.
pub fn without_place(address: u64) -> u64 {
    match hotspot::is_java(address) {
        true => hotspot::without_place(address),
        false => address,
    }
}

/// Names of such functions of one process.
#[derive(Default)]
pub struct ManagedNames {
    java: JavaMethods,
}

impl ManagedNames {
    /// `None`: it is gone, or the address is none.
    pub fn at(&mut self, pid: u32, address: u64) -> Option<Frame> {
        match v8::is_javascript(address) {
            true => v8::named(address),
            false => self.java.at(pid, address),
        }
    }
}

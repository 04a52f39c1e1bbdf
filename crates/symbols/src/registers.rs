//! Where a stack begins.

/// User registers; `lr` is 0 on x86_64.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Registers {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub lr: u64,
}

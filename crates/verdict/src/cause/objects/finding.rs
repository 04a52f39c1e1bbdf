//! What is found in a managed heap.

use super::super::Cause;

/// What grows in a managed heap, as a sentence.
pub struct Finding {
    pub cause: Cause,
    /// What it explains of the growth.
    pub bytes: f64,
    /// What keeps the objects is known, or who starts the tasks.
    pub is_certain: bool,
    /// Snapshots that it is from.
    pub values: usize,
    /// It is led by a part of the runtime's own memory, which a program that becomes warm fills too.
    pub by_part: bool,
    /// It is led by tasks, whose stacks are no objects.
    pub by_task: bool,
    pub sentence: String,
    pub next: String,
}

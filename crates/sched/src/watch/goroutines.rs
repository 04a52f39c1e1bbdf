//! Goroutines among the watched threads.

use std::io;

use super::super::golang::{Goroutines, Program};
use super::{Mode, Watch};
use crate::event::Tid;

impl Watch {
    /// Goroutines seen, when the subject is a Go program.
    pub fn goroutines(&self) -> Vec<Tid> {
        self.go.as_ref().map_or(Vec::new(), Goroutines::seen)
    }

    /// The program is in Go, and its threads are all that is seen of it.
    pub fn goroutines_are_unseen(&self) -> bool {
        self.waits.futexes_are_the_runtimes && self.go.is_none()
    }

    /// The waits of goroutines, where the program is one in Go and the kernel lets us probe it.
    pub(super) fn open_go(&mut self) {
        let Some(program) = Program::of(self.pid) else {
            return;
        };
        let opened = match self.mode {
            Mode::Ebpf => program.and_then(|program| Goroutines::watch(self.pid, &program)),
            _ => Err(io::Error::other("probing it needs root")),
        };
        match opened {
            Ok(go) => self.go = Some(go),
            Err(error) => self.missing.push(format!(
                "the program is in Go, and waits of its goroutines are not seen: {error}"
            )),
        }
        self.waits.futexes_are_the_runtimes = true;
    }
}

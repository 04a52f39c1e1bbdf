//! Functions of Python that a thread is in, behind its native stack. Of a thread that waits they are read from outside;
//! of one that runs they would be those of a later moment than its sample: there, as root, the kernel walks them.

use super::{Source, Watch};
use abi::PYTHON_CODE;
use bpf::ring::Sample;
use symbols::python::threads::PythonThreads;

const TIMES_SOUGHT: u32 = 20;

impl Watch {
    /// Looks for an interpreter among the files that are mapped now; a few times, for a program that just begins.
    pub(super) fn find_python(&mut self) {
        if self.python.is_none() && self.python_sought < TIMES_SOUGHT {
            self.python_sought += 1;
            self.python = PythonThreads::of(self.pid);
            if self.python.is_some() {
                self.places.reads_python();
            }
        }
    }

    /// Of a sample of the clock.
    pub(super) fn add_sampled_python(&mut self, sample: &Sample<'_>, addresses: &mut Vec<u64>) {
        let Source::Ebpf(ebpf) = &mut self.source else {
            return;
        };
        let codes = ebpf.python_at(sample.tid, sample.at_ns);
        if self.python.is_some() && !addresses.is_empty() {
            addresses.extend(codes.iter().map(|code| code | PYTHON_CODE));
        }
    }

    /// Who asks makes sure afterwards that the thread still waits.
    pub(super) fn add_python(&mut self, tid: u32, addresses: &mut Vec<u64>) {
        let Some(python) = self.python.as_mut().filter(|_| !addresses.is_empty()) else {
            return;
        };
        let native = self.threads.inner(tid);
        let codes = native
            .map(|native| python.functions(native))
            .unwrap_or_default();
        addresses.extend(codes.iter().map(|code| code | PYTHON_CODE));
    }
}

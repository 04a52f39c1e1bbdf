//! Functions of Python that a thread is in, behind its native stack. Of threads that wait: of one that runs they would
//! be those of a later moment than its sample.

use super::Watch;
use abi::PYTHON_CODE;
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

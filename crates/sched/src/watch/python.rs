//! Functions of Python that a thread is in, behind its native stack. Of a thread that waits they are read from outside;
//! of one that runs they would be those of a later moment than its sample: there, as root, the kernel walks them.

use super::{Source, Watch};
use abi::PYTHON_CODE;
use symbols::python::threads::PythonThreads;

const TIMES_SOUGHT: u32 = 20;

impl Watch {
    /// Runtimes whose functions stacks have. A stack keeps the names that it got first.
    pub(super) fn find_runtimes(&mut self) {
        self.find_python();
        if self.stacks.reads_managed() {
            self.places.reads_managed();
        }
    }

    /// Looks for an interpreter among the files that are mapped now; a few times, for a program that just begins.
    fn find_python(&mut self) {
        if self.python.is_none() && self.python_sought < TIMES_SOUGHT {
            self.python_sought += 1;
            self.python = PythonThreads::of(self.pid);
            if self.python.is_some() {
                self.places.reads_python();
            }
        }
    }

    /// What the kernel walked of a thread then: at a sample of the clock, or as a wait for a device began.
    pub(super) fn add_walked_python(&mut self, (tid, at_ns): (u32, u64), addresses: &mut Vec<u64>) {
        let Source::Ebpf(ebpf) = &mut self.source else {
            return;
        };
        let codes = ebpf.python_at(tid, at_ns);
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::event::{Event, WaitKind, What};
    use crate::room::Room;
    use bpf::allowed::{Allowed, Mode};
    use testkit::{pythons, skipped};

    /// A program whose event loop computes, in turns of some milliseconds.
    const PROGRAM: &str = "
import asyncio, time
def summarise():
    end, total = time.monotonic() + 0.05, 0
    while time.monotonic() < end:
        total += sum(range(2_000))
class Reports:
    async def yearly(self):
        summarise()
async def main():
    print('ready', flush=True)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        await Reports().yearly()
        await asyncio.sleep(0.01)
asyncio.run(main())
";

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Functions and times like those of one that computes, which writes and syncs instead.
    const SYNCS: &str = "
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def save():
    for at in range(20):
        os.pwrite(file, b'x' * 4096, at * 4096)
        os.fsync(file)
class Reports:
    def yearly(self):
        save()
print('ready', flush=True)
end = time.monotonic() + 30
while time.monotonic() < end:
    Reports().yearly()
    time.sleep(0.01)
";

    /// What came of two seconds, and the watch that has the names.
    fn watched(pid: u32) -> (Vec<Event>, Watch) {
        let mut watch = Watch::open(pid, Mode::Ebpf, Room::One).unwrap();
        let (end, mut events) = (Instant::now() + Duration::from_secs(2), Vec::new());
        while Instant::now() < end {
            std::thread::sleep(watch.rest());
            events.extend(watch.turn().events);
        }
        events.extend(watch.finish());
        (events, watch)
    }

    /// Names on the stacks of samples of threads on a CPU, innermost first.
    fn sampled(pid: u32) -> Vec<Vec<String>> {
        let (events, watch) = watched(pid);
        let on_cpu = events.iter().filter_map(|event| match event.what {
            What::OnCpu { stack, .. } => Some(watch.places.stack_of(stack)),
            _ => None,
        });
        let names = on_cpu.map(|stack| stack.frames.iter().map(|frame| frame.name.clone()));
        names.map(Iterator::collect).collect()
    }

    #[test]
    fn threads_on_a_cpu_are_in_functions_of_python() {
        if let Err(why) = Allowed::try_all().bpf {
            return skipped(&format!("programs need root: {why}"));
        }
        let pythons = pythons(8..=14);
        if pythons.is_empty() {
            return skipped("no python3 is here");
        }
        for (minor, python) in pythons {
            let mut python = Command::new(python);
            let python = python.args(["-c", PROGRAM]).stdout(Stdio::piped());
            let mut python = Killed(python.spawn().unwrap());
            let ready = python.0.stdout.as_mut().unwrap().read(&mut [0; 8]);
            assert!(ready.unwrap() > 0, "it runs");
            let stacks = sampled(python.0.id());
            let yearly = if minor < 11 {
                "yearly"
            } else {
                "Reports.yearly"
            };
            let is_right = |stack: &&Vec<String>| {
                let at = stack.iter().position(|name| name == "summarise");
                at.is_some_and(|at| stack.get(at + 1).is_some_and(|name| name == yearly))
            };
            let right = stacks.iter().filter(is_right).count();
            eprintln!("3.{minor}: {right} of {} samples", stacks.len());
            assert!(stacks.len() > 30, "3.{minor}: {} samples", stacks.len());
            let wrong = stacks.iter().find(|stack| !is_right(stack));
            assert!(right * 20 >= stacks.len() * 19, "3.{minor}: {wrong:?}");
        }
    }

    /// The waits are far too short to be read from outside.
    #[test]
    fn threads_that_wait_for_a_disk_are_in_functions_of_python() {
        if let Err(why) = Allowed::try_all().bpf {
            return skipped(&format!("programs need root: {why}"));
        }
        for (minor, python) in pythons(11..=14) {
            let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let file = folder.path().join("journal");
            let mut python = Command::new(python);
            let python = python.args(["-c", SYNCS]).arg(file);
            let mut python = Killed(python.stdout(Stdio::piped()).spawn().unwrap());
            let ready = python.0.stdout.as_mut().unwrap().read(&mut [0; 8]);
            assert!(ready.unwrap() > 0, "it runs");
            let (events, watch) = watched(python.0.id());
            let waits = events.iter().filter_map(|event| match event.what {
                What::Blocked(wait) if wait.kind == WaitKind::Disk => Some(wait.stack),
                _ => None,
            });
            let known: Vec<_> = waits.filter(|stack| *stack != 0).collect();
            if known.len() < 5 {
                return skipped(&format!("{} waits for this disk were seen", known.len()));
            }
            let is_right = |stack: &&u32| {
                let frames = &watch.places.stack_of(**stack).frames;
                let at = frames.iter().position(|frame| frame.name == "save");
                let next = at.and_then(|at| frames.get(at + 1));
                next.is_some_and(|frame| frame.name == "Reports.yearly")
            };
            let right = known.iter().filter(is_right).count();
            eprintln!("3.{minor}: {right} of {} waits", known.len());
            assert!(
                right * 10 >= known.len() * 9,
                "3.{minor}: {right} of {}",
                known.len()
            );
        }
    }
}

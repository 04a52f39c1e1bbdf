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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::event::What;
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

    /// Names on the stacks of samples of threads on a CPU, innermost first.
    fn sampled(pid: u32) -> Vec<Vec<String>> {
        let mut watch = Watch::open(pid, Mode::Ebpf, Room::One).unwrap();
        let (end, mut events) = (Instant::now() + Duration::from_secs(2), Vec::new());
        while Instant::now() < end {
            std::thread::sleep(watch.rest());
            events.extend(watch.turn().events);
        }
        events.extend(watch.finish());
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
}

//! Requests on the connections of the watched process, by the threads or goroutines that took and answered them.

use super::{Mode, Watch};
use crate::answers::{Answers, Replied, Told};
use crate::event::Tid;
use crate::requests::{Answered, Reply, Unseen};

impl Watch {
    /// Requests on the connections of the process are told from now on. Where the kernel or the mode does not tell of
    /// them, that is among what is missing.
    pub fn watch_requests(&mut self) {
        if self.mode != Mode::Ebpf {
            return;
        }
        match Answers::attach(self.pid) {
            Ok(answers) => {
                self.answers = Some(answers);
                self.count_kernel_memory();
            }
            Err(why) => self
                .missing
                .push(format!("requests on its connections: {why}")),
        }
    }

    /// Those that were answered since the last call, up to `until_ns`; until then it is known on which goroutine a
    /// thread was.
    pub fn answered(&mut self, now_ns: u64, until_ns: u64) -> Vec<Answered> {
        let told = self.answers.as_mut();
        let told = told.map(|answers| answers.drain(now_ns, until_ns));
        let told = told.unwrap_or_default().into_iter();
        told.filter_map(|told| self.of_tasks(&told)).collect()
    }

    /// The replies of what was drained, up to `until_ns`.
    pub fn replies(&mut self, until_ns: u64) -> Vec<Reply> {
        let told = self.answers.as_mut();
        let told = told.map(|answers| answers.replies(until_ns));
        let told = told.unwrap_or_default().into_iter();
        told.map(|told| self.reply(told)).collect()
    }

    fn reply(&mut self, told: Replied) -> Reply {
        let tid = self.task_at(told.receiver, told.replied_ns);
        Reply {
            start_ns: told.asked_ns,
            end_ns: told.replied_ns,
            tid: tid.unwrap_or(Tid::from(told.receiver)),
            activity: self
                .places
                .text(&format!("network read from {}", told.peer)),
        }
    }

    /// In a Go program the goroutine that was on the thread just then.
    fn task_at(&self, tid: u32, at_ns: u64) -> Option<Tid> {
        match &self.go {
            Some(go) => go.on_thread(tid, at_ns),
            None => Some(Tid::from(tid)),
        }
    }

    /// In a Go program the goroutines that were on the threads just then.
    fn of_tasks(&self, told: &Told) -> Option<Answered> {
        let sender = self.task_at(told.sender, told.answered_ns)?;
        Some(Answered {
            start_ns: told.arrived_ns,
            received_ns: told.received_ns,
            end_ns: told.answered_ns,
            // Of long ago it is not known on which goroutine a thread was; most answer what they received.
            receiver: self
                .task_at(told.receiver, told.received_ns)
                .unwrap_or(sender),
            sender,
        })
    }

    /// Requests on its connections that were not told; `None`: none are.
    pub fn unseen_requests(&self, now_ns: u64) -> Option<Unseen> {
        Some(self.answers.as_ref()?.unseen(now_ns))
    }
}

//! Which threads are watched: those that live at first, and those that come and go.

use std::io;

use super::{Source, Watch, now_ns, threads};
use crate::event::What;
use crate::open_files::is_full;

impl Watch {
    /// A thread that is watched from now on; what it is in is read from /proc.
    pub(super) fn admit(&mut self, tid: u32) -> io::Result<()> {
        if let (Source::Threads, Some(events)) = (&self.source, &mut self.samples) {
            // Threads that a watched one starts come with it: only the first need the asking.
            match events.watch(tid, true) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(error) if is_full(&error) && events.watches_any() => {
                    self.threads.refuse(tid);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            events.watch_clock(tid);
        }
        if let Source::Ebpf(ebpf) = &self.source
            && !ebpf.watch(tid)
        {
            self.threads.refuse(tid);
            return Ok(());
        }
        self.threads.admit(tid);
        self.sample_first(tid);
        Ok(())
    }

    /// Finds new and ended threads; false when the process is gone.
    pub(super) fn rescan(&mut self) -> bool {
        let tids = match threads::list(self.pid) {
            Ok(tids) => tids,
            // No file can be opened just now: the process may well be there.
            Err(error) if is_full(&error) => return true,
            Err(_) => return false,
        };
        let before = self.threads.len();
        for tid in &tids {
            if !self.threads.lives(*tid) && !self.threads.is_refused(*tid) {
                self.threads.admit(*tid);
                match (&self.source, &mut self.samples) {
                    (Source::Ebpf(ebpf), _) if !ebpf.watch(*tid) => self.threads.refuse(*tid),
                    (Source::Threads, Some(events)) => events.watch_new(*tid),
                    (Source::Ebpf(_), _) | (Source::Threads, None) => {}
                }
            }
        }
        if let (Source::Threads, Some(events)) = (&self.source, &mut self.samples) {
            events.judge_clocks();
        }
        for tid in self.threads.ended(&tids) {
            if let Source::Ebpf(ebpf) = &self.source {
                ebpf.forget(tid);
            }
            if let Some(events) = &mut self.samples {
                events.forget(tid);
            }
            self.files.forget(tid);
            self.tell(now_ns(), tid, What::Exited);
        }
        if self.threads.len() != before || std::mem::take(&mut self.stale) {
            self.stacks.reload();
            self.find_runtimes();
            // What had no name may have one now.
            self.releases.clear();
        }
        !tids.is_empty()
    }
}

//! While the program runs: disk blocks ahead of the recorder, and samples of the program's memory.

use std::path::Path;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGKILL;

use heap::smaps::{Area, parse_smaps};
use observe::proc::open::Folder;
use observe::proc::status::parse_status;
use trace::{Finished, Recording, Sample, TraceError, UNKNOWN};

use super::facts;
use super::subject::Subject;

/// How often disk blocks are allocated ahead, and how often memory is sampled.
const GROW_EVERY: Duration = Duration::from_millis(20);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Mappings one by one are read this often: an mmap of the program may wait meanwhile.
const MAPPINGS_EVERY: Duration = Duration::from_secs(5);
/// The first times earlier, for programs that run for seconds.
const MAPPINGS_FIRST: Duration = Duration::from_millis(100);
const MAPPINGS_SECOND: Duration = Duration::from_secs(1);
/// With more threads than this the list of them is read once a second.
const THREADS_MANY: usize = 200;
/// After recording is stopped: what a thread may need to finish an event.
const SETTLE: Duration = Duration::from_millis(100);
/// A thread's stack has a guard in front of it of at most this size.
const GUARD_BYTES_MAX: u64 = 64 << 10;

/// What came of it.
pub struct Watched {
    pub finished: Result<Finished, TraceError>,
    pub code: u8,
    /// Whether the program ever loaded the recorder.
    pub is_taken: bool,
    pub ledge: trace::Ledge,
}

/// A recording under way.
pub struct Watch {
    recording: Option<Recording>,
    subject: Subject,
    until: Option<Instant>,
    sampled: Option<Instant>,
    mappings_due: Instant,
    listed: Option<Instant>,
    threads: Vec<u32>,
    files: Vec<String>,
    knows_allocator: bool,
    images: u32,
}

impl Watch {
    /// Records for `length`, or to the end of the program.
    pub fn new(recording: Recording, subject: Subject, length: Option<Duration>) -> Watch {
        let now = Instant::now();
        Watch {
            recording: Some(recording),
            subject,
            until: length.map(|length| now + length),
            sampled: None,
            mappings_due: now + MAPPINGS_FIRST,
            listed: None,
            threads: Vec::new(),
            files: Vec::new(),
            knows_allocator: false,
            images: 0,
        }
    }

    /// Until the program has ended.
    pub fn run(mut self) -> Watched {
        let mut watched = None;
        while !self.subject.has_ended() {
            if let Some(recording) = self.recording.as_mut() {
                recording.grow();
                self.sample();
            }
            if self.until.is_some_and(|until| Instant::now() >= until) {
                self.until = None;
                watched = self
                    .recording
                    .take()
                    .map(|recording| self.end(recording, true));
            }
            std::thread::sleep(GROW_EVERY);
        }
        let last = self
            .recording
            .take()
            .map(|recording| self.end(recording, false));
        let mut watched = watched.or(last).expect("a recording ends once");
        watched.code = self.subject.code();
        watched
    }

    fn end(&mut self, mut recording: Recording, is_stopped: bool) -> Watched {
        recording.add_facts(&facts::of_files(&self.files));
        if self.subject.ended_by_itself() {
            recording.add_facts(&facts::ended());
        }
        let is_taken = recording.is_taken();
        let ledge = recording.ledge();
        if is_stopped {
            recording.stop();
            std::thread::sleep(SETTLE);
        }
        let finished = recording.finish();
        Watched {
            finished,
            code: 0,
            is_taken,
            ledge,
        }
    }

    fn sample(&mut self) {
        let now = Instant::now();
        if self
            .sampled
            .is_some_and(|last| now.duration_since(last) < SAMPLE_EVERY)
        {
            return;
        }
        let Some(recording) = self.recording.as_mut() else {
            return;
        };
        let path = format!("/proc/{}", self.subject.pid());
        let Ok(folder) = Folder::open(Path::new(&path)) else {
            return;
        };
        let mut text = Vec::new();
        if folder.read("status", &mut text).is_err() {
            return;
        }
        let status = parse_status(&text);
        // A process that is ending has no memory any more: no sample.
        let (Some(anon), true) = (status.rss_anon_bytes, recording.is_taken()) else {
            return;
        };
        self.sampled = Some(now);
        let mut sample = Sample {
            time_ns: recording.elapsed_ns(),
            anon_bytes: anon,
            file_bytes: status.rss_file_bytes.unwrap_or(0),
            shmem_bytes: status.rss_shmem_bytes.unwrap_or(0),
            other_bytes: UNKNOWN,
        };
        if self.images != recording.images() {
            // Another program now: what was known was of the one before.
            self.images = recording.images();
            self.knows_allocator = false;
            self.mappings_due = now + MAPPINGS_FIRST;
            self.files.clear();
            recording.add_facts(&facts::program(&path));
        }
        if !self.knows_allocator {
            // Not at once: the dynamic linker may be at work.
            let known = facts::allocator(&folder, Path::new(&path));
            self.knows_allocator = !known.is_empty();
            recording.add_facts(&known);
        }
        if now >= self.mappings_due
            && let Some(areas) = read_areas(&folder)
        {
            let is_first = self.files.is_empty();
            self.mappings_due = now
                + if is_first {
                    MAPPINGS_SECOND
                } else {
                    MAPPINGS_EVERY
                };
            sample.other_bytes = other_bytes(&areas);
            self.files = files(&areas);
        }
        recording.add_sample(&sample);
        if !is_dying(&text) {
            self.list_threads(&folder, now);
        }
    }

    fn list_threads(&mut self, folder: &Folder, now: Instant) {
        let pause = match self.threads.len() > THREADS_MANY {
            true => Duration::from_secs(1),
            false => SAMPLE_EVERY,
        };
        if self
            .listed
            .is_none_or(|last| now.duration_since(last) >= pause)
        {
            self.listed = Some(now);
            let tids = folder.threads().unwrap_or_default();
            let mut now: Vec<u32> = tids.into_iter().map(|tid| tid as u32).collect();
            now.sort_unstable();
            let is_gone = |tid: &&u32| now.binary_search(tid).is_err();
            let ended: Vec<u32> = self.threads.iter().filter(is_gone).copied().collect();
            // While a process ends its threads go one by one: those of the sample before count too.
            let mut alive = std::mem::replace(&mut self.threads, now);
            alive.extend(&self.threads);
            alive.sort_unstable();
            alive.dedup();
            if let Some(recording) = self.recording.as_mut() {
                recording.set_alive(&alive);
                recording.add_ended(&ended);
            }
        }
    }
}

/// Whether SIGKILL waits for the main thread, as it does while a process is being ended: its threads go one by one
/// then, and none of them has ended by itself.
fn is_dying(status: &[u8]) -> bool {
    let text = String::from_utf8_lossy(status);
    let pending = text.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.is_some_and(|mask| mask & (1 << (SIGKILL - 1)) != 0)
}

fn read_areas(folder: &Folder) -> Option<Vec<Area>> {
    let mut text = Vec::new();
    folder.read_long("smaps", &mut text).ok()?;
    parse_smaps(&text).ok()
}

/// Anonymous memory that no allocator has: private pages of files, stacks.
fn other_bytes(areas: &[Area]) -> u64 {
    let mut sum = 0;
    let mut before: Option<&Area> = None;
    for area in areas {
        let has_guard = before.is_some_and(|before| {
            before.end == area.start && !before.readable && before.bytes() <= GUARD_BYTES_MAX
        });
        let is_stack = area.name.starts_with("[stack") || (area.is_anonymous() && has_guard);
        if area.inode != 0 || is_stack {
            sum += area.anonymous_bytes;
        }
        before = Some(area);
    }
    sum
}

/// Files that are mapped as code.
fn files(areas: &[Area]) -> Vec<String> {
    let code = areas
        .iter()
        .filter(|area| area.executable && area.inode != 0);
    let mut files: Vec<String> = code.map(|area| area.name.clone()).collect();
    files.dedup();
    files
}

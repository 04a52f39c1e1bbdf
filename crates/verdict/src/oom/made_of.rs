//! What the memory under the limit was made of, and which part of it is the reason.

use oom::kill::{Constraint, Kill};

/// A part is the reason from this share of the memory on: with less, several together are.
const MOST: f64 = 0.5;
/// From so many processes of one command on, their number may be the reason...
const MANY: u64 = 8;
/// ...where none of them has more than this share of what they have together.
const SHARE_OF_ONE: f64 = 0.25;

/// Parts that are the kernel's own.
pub const KERNEL: [&str; 6] = [
    "kernel",
    "sockets",
    "slab_reclaimable",
    "slab_unreclaimable",
    "page_tables",
    "kernel_stacks",
];

/// The part that is the reason.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// The memory of one process, or a few.
    Anonymous,
    /// Of many processes of one command.
    ManyProcesses {
        command: String,
        count: u64,
        resident_bytes: u64,
    },
    /// tmpfs, System V and POSIX shared memory.
    Shared,
    /// Page cache that could not be dropped.
    Files,
    Kernel,
    HugePages,
    /// No part is more than half.
    Mixed,
    /// The log does not say.
    Unknown,
}

impl Made {
    /// As in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Made::Anonymous => "anonymous",
            Made::ManyProcesses { .. } => "many_processes",
            Made::Shared => "shared",
            Made::Files => "files",
            Made::Kernel => "kernel",
            Made::HugePages => "huge_pages",
            Made::Mixed => "mixed",
            Made::Unknown => "unknown",
        }
    }
}

/// A line of the breakdown. The lines add up to the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// As in JSON, "page_tables".
    pub word: &'static str,
    pub bytes: f64,
}

/// The breakdown of what had run out, and its whole; `None` where the log has none.
pub fn parts(kill: &Kill) -> Option<(Vec<Part>, f64)> {
    match kill.constraint {
        Constraint::Cgroup => of_cgroup(kill),
        _ => of_machine(kill).or_else(|| of_cgroup(kill)),
    }
}

fn of_cgroup(kill: &Kill) -> Option<(Vec<Part>, f64)> {
    let cgroup = kill.cgroup.as_ref()?;
    let whole = cgroup.memory?.usage_bytes as f64;
    cgroup.anon_bytes.or(cgroup.file_bytes)?;
    let known = [
        ("anonymous", cgroup.anon_bytes),
        ("shared", cgroup.shmem_bytes),
        ("files", cgroup.file_bytes),
        ("kernel", cgroup.kernel_bytes),
        ("sockets", cgroup.socket_bytes),
    ];
    Some((added_up(&known, whole), whole))
}

fn of_machine(kill: &Kill) -> Option<(Vec<Part>, f64)> {
    let machine = kill.machine.as_ref()?;
    let whole = machine.managed_bytes? as f64;
    let known = [
        ("anonymous", Some(machine.anon_bytes)),
        ("shared", Some(machine.shmem_bytes)),
        ("files", Some(machine.file_bytes)),
        ("unevictable", Some(machine.unevictable_bytes)),
        ("slab_reclaimable", Some(machine.slab_reclaimable_bytes)),
        ("slab_unreclaimable", Some(machine.slab_unreclaimable_bytes)),
        ("page_tables", Some(machine.page_table_bytes)),
        ("kernel_stacks", Some(machine.kernel_stack_bytes)),
        ("huge_pages", Some(machine.huge_page_bytes)),
        ("free", Some(machine.free_bytes)),
    ];
    Some((added_up(&known, whole), whole))
}

fn added_up(known: &[(&'static str, Option<u64>)], whole: f64) -> Vec<Part> {
    let known = known
        .iter()
        .filter_map(|(word, bytes)| Some((*word, (*bytes)? as f64)));
    let mut parts: Vec<Part> = known.map(|(word, bytes)| Part { word, bytes }).collect();
    let sum: f64 = parts.iter().map(|part| part.bytes).sum();
    parts.push(Part {
        word: "unexplained",
        bytes: whole - sum,
    });
    parts
}

pub fn made_of(kill: &Kill) -> Made {
    let Some((parts, whole)) = parts(kill) else {
        return Made::Unknown;
    };
    let sum = |words: &[&str]| -> f64 {
        let of = parts.iter().filter(|part| words.contains(&part.word));
        of.map(|part| part.bytes).sum()
    };
    let shares = [
        (Made::Anonymous, sum(&["anonymous"])),
        (Made::Shared, sum(&["shared"])),
        (Made::Files, sum(&["files", "unevictable"])),
        (Made::Kernel, sum(&KERNEL)),
        (Made::HugePages, sum(&["huge_pages"])),
    ];
    let largest = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match largest {
        Some((Made::Anonymous, bytes)) if bytes >= MOST * whole => {
            many(kill).unwrap_or(Made::Anonymous)
        }
        Some((made, bytes)) if bytes >= MOST * whole => made,
        _ => Made::Mixed,
    }
}

/// Many processes of one command that have most together, and none of them much.
fn many(kill: &Kill) -> Option<Made> {
    let top = kill
        .tasks
        .commands
        .first()
        .filter(|top| top.count >= MANY)?;
    let largest = kill
        .tasks
        .largest
        .iter()
        .find(|task| task.command == top.command)?;
    let together = top.resident_bytes as f64;
    let is_most = together >= MOST * kill.tasks.resident_bytes as f64;
    let is_even = largest.resident_bytes as f64 <= SHARE_OF_ONE * together;
    (is_most && is_even).then(|| Made::ManyProcesses {
        command: top.command.clone(),
        count: top.count,
        resident_bytes: top.resident_bytes,
    })
}

//! One out-of-memory kill, as a log tells it. Bytes are bytes here: pages and kB are converted when a kill is complete.

/// Tasks of a kill that are kept, the largest; all are counted.
pub const TASKS_MAX: usize = 64;

/// When a line was written. Either may be absent: `dmesg` has no wall clock, syslog often no kernel stamp.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct At {
    /// Seconds since 1970, UTC.
    pub wall_s: Option<f64>,
    /// Seconds on the kernel's own clock, which starts at boot and stands still while the machine is suspended.
    pub boot_s: Option<f64>,
}

impl At {
    /// Seconds from `earlier` to this, on the clock that both have.
    pub fn since(self, earlier: At) -> Option<f64> {
        let of = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        // Stamps of two boots do not compare: a negative difference is one of them.
        let boot = of(self.boot_s, earlier.boot_s).filter(|seconds| *seconds >= 0.0);
        of(self.wall_s, earlier.wall_s).or(boot)
    }
}

/// Who killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    Kernel,
    /// In user space, by cgroup; with its own words.
    SystemdOomd(String),
}

/// Which memory had run out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Constraint {
    /// The log does not say.
    #[default]
    Unknown,
    /// The whole machine's.
    Machine,
    /// A cgroup's limit.
    Cgroup,
    /// The nodes of a cpuset.
    Cpuset,
    /// The nodes of a NUMA policy (mbind, set_mempolicy).
    MemoryPolicy,
}

/// How it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The log ends or goes on without saying.
    #[default]
    Unsaid,
    Killed,
    /// Nothing that may be killed was left.
    NothingToKill,
    /// The machine was stopped (`vm.panic_on_oom`, or nothing was left to kill).
    Panicked,
}

/// The allocation that could not be served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub command: String,
    pub pid: Option<u32>,
    /// "0xcc0(GFP_KERNEL)" without the number where the kernel names the flags.
    pub gfp: String,
    /// It asked for two to the power of this, contiguous pages.
    pub order: Option<u32>,
    pub oom_score_adj: Option<i32>,
}

/// A process that was killed; its memory at that moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Victim {
    pub pid: u32,
    pub command: String,
    pub uid: Option<u32>,
    pub virtual_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub shmem_bytes: Option<u64>,
    pub page_table_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub oom_score_adj: Option<i32>,
    /// A child of the process that the kernel had chosen (before 5.3).
    pub instead_of: Option<(u32, String)>,
}

impl Victim {
    /// Anonymous, file and shared pages; `None` where the log has none of them.
    pub fn resident_bytes(&self) -> Option<u64> {
        let parts = [self.anon_bytes, self.file_bytes, self.shmem_bytes];
        let known = parts.iter().any(Option::is_some);
        known.then(|| {
            let parts = parts.iter().flatten();
            parts.fold(0, |sum: u64, part| sum.saturating_add(*part))
        })
    }
}

/// A row of the table of tasks: one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub pid: u32,
    pub uid: u32,
    pub command: String,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub swap_bytes: u64,
    pub oom_score_adj: i32,
}

/// All processes of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub command: String,
    pub count: u64,
    pub resident_bytes: u64,
}

/// The table of tasks that could have been killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// The largest by resident memory, largest first; at most [`TASKS_MAX`].
    pub largest: Vec<Task>,
    /// All rows, those that were left out too.
    pub count: u64,
    /// Sum over all rows. What processes share counts once for each.
    pub resident_bytes: u64,
    /// Commands by resident memory, largest first; at most eight.
    pub commands: Vec<Command>,
}

/// A counter of a cgroup with its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counter {
    pub usage_bytes: u64,
    /// `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// How often the limit was hit.
    pub failures: u64,
}

impl Counter {
    /// Within 1 % of its limit: the kernel charges in batches.
    pub fn is_at_limit(&self) -> bool {
        self.limit_bytes
            .is_some_and(|limit| self.usage_bytes >= limit - limit / 100)
    }
}

/// What a cgroup's memory was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupMemory {
    pub path: String,
    pub memory: Option<Counter>,
    /// cgroup v2.
    pub swap: Option<Counter>,
    /// cgroup v1: memory and swap together.
    pub memory_and_swap: Option<Counter>,
    /// cgroup v1: kernel memory alone.
    pub kernel: Option<Counter>,
    pub anon_bytes: Option<u64>,
    /// Page cache without shared memory.
    pub file_bytes: Option<u64>,
    pub shmem_bytes: Option<u64>,
    /// All of the kernel's: stacks, page tables, slab and others.
    pub kernel_bytes: Option<u64>,
    pub kernel_stack_bytes: Option<u64>,
    pub slab_bytes: Option<u64>,
    pub page_table_bytes: Option<u64>,
    pub socket_bytes: Option<u64>,
}

/// What the machine's memory was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineMemory {
    /// RAM that the kernel manages: without what it reserved at boot.
    pub managed_bytes: Option<u64>,
    pub free_bytes: u64,
    pub anon_bytes: u64,
    pub file_bytes: u64,
    pub shmem_bytes: u64,
    /// Memory that is locked (mlock, ramfs); may be anonymous or of files.
    pub unevictable_bytes: u64,
    pub slab_reclaimable_bytes: u64,
    pub slab_unreclaimable_bytes: u64,
    pub page_table_bytes: u64,
    pub kernel_stack_bytes: u64,
    /// Huge pages that were reserved, used or not.
    pub huge_page_bytes: u64,
    pub swap_total_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
    pub zones: Vec<Zone>,
    /// Caches of unreclaimable slab, largest first, where the kernel listed them.
    pub slab_caches: Vec<(String, u64)>,
}

impl MachineMemory {
    /// Managed RAM less all named parts; may be negative, for the counters are not read at one instant.
    pub fn unexplained_bytes(&self) -> Option<i64> {
        let named = [
            self.free_bytes,
            self.anon_bytes,
            self.file_bytes,
            self.shmem_bytes,
            self.unevictable_bytes,
            self.slab_reclaimable_bytes,
            self.slab_unreclaimable_bytes,
            self.page_table_bytes,
            self.kernel_stack_bytes,
            self.huge_page_bytes,
        ];
        let named = named
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part));
        let managed = i64::try_from(self.managed_bytes?).ok()?;
        managed.checked_sub(i64::try_from(named).ok()?)
    }
}

/// A zone of a node, with its free memory and the mark below which only the kernel may take of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// "Node 0 DMA32".
    pub name: String,
    pub free_bytes: u64,
    pub min_bytes: u64,
}

/// A part of a kill's messages that the log does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// Who asked for memory ("invoked oom-killer").
    Request,
    /// Which limit it was.
    Limit,
    /// What the memory was made of.
    Memory,
    /// The table of tasks.
    Tasks,
    /// Who was killed.
    Victim,
}

/// One time that memory ran out.
#[derive(Debug, Clone, PartialEq)]
pub struct Kill {
    pub at: At,
    /// Of the log, from 1.
    pub line: u64,
    /// Release, where the log has it.
    pub kernel: Option<String>,
    pub by: By,
    pub constraint: Constraint,
    /// The cgroup whose limit it was.
    pub limit_cgroup: Option<String>,
    /// The cgroup of the process that was killed.
    pub task_cgroup: Option<String>,
    pub cpuset: Option<String>,
    /// Nodes that the request might use, "0-1".
    pub nodes: Option<String>,
    pub request: Option<Request>,
    pub outcome: Outcome,
    /// The first was chosen; others were killed with it.
    pub victims: Vec<Victim>,
    /// Processes that were killed, where the log gives their number and not their names.
    pub killed_count: Option<u64>,
    /// All processes of this cgroup were killed (`memory.oom.group`).
    pub group_cgroup: Option<String>,
    /// `vm.oom_kill_allocating_task`: the one that asked was killed, whatever its size.
    pub is_allocating_task: bool,
    pub cgroup: Option<CgroupMemory>,
    pub machine: Option<MachineMemory>,
    pub tasks: Tasks,
    /// In order.
    pub missing: Vec<Missing>,
}

impl Kill {
    /// The process that was chosen.
    pub fn victim(&self) -> Option<&Victim> {
        self.victims.first()
    }

    /// The cgroup whose limit it was, or whose process was killed.
    pub fn cgroup_path(&self) -> Option<&str> {
        self.limit_cgroup.as_deref().or(self.task_cgroup.as_deref())
    }
}

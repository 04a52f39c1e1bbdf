//! The names of what is measured, with unit and kind, defined once.

/// A gauge is a level; a counter only rises within one incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
}

/// A measured quantity. Units are in the name: `_bytes`, `_ns`, none for counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// Where it comes from and what it means.
    pub describe: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:ident, $describe:literal;)*) => {
        $(#[doc = $describe] pub const $id: Metric =
            Metric { name: $name, kind: Kind::$kind, describe: $describe };)*
        /// Every metric that highwater itself defines.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

metrics! {
    RSS = "rss_bytes", Gauge, "Pages in RAM: VmRSS of /proc/PID/status.";
    RSS_ANON = "rss_anon_bytes", Gauge, "Of which anonymous: RssAnon.";
    RSS_FILE = "rss_file_bytes", Gauge, "Of which file mappings: RssFile.";
    RSS_SHMEM = "rss_shmem_bytes", Gauge, "Of which shared memory: RssShmem.";
    RSS_PEAK = "rss_peak_bytes", Gauge, "High-water mark: VmHWM.";
    SWAP = "swap_bytes", Gauge, "VmSwap.";
    VIRTUAL = "virtual_bytes", Gauge, "VmSize.";
    PSS = "pss_bytes", Gauge, "Proportional share, smaps_rollup (slower rate).";
    LAZY_FREE = "lazy_free_bytes", Gauge, "MADV_FREE pages that still count as resident, smaps_rollup (slower rate).";
    HUGE_PAGES = "huge_pages_bytes", Gauge, "AnonHugePages, smaps_rollup (slower rate).";
    PRIVATE_DIRTY = "private_dirty_bytes", Gauge, "Private_Dirty, smaps_rollup (slower rate).";
    LIVE_HEAP = "live_heap_bytes", Gauge, "Usable bytes allocated and not freed, resident: the heap probe's count.";
    ALLOCATOR_HELD = "allocator_held_bytes", Gauge, "Resident heap pages without a live block (heap probe).";
    FRAGMENTATION = "fragmentation_bytes", Gauge, "Pages with a live block, less the live bytes (heap probe).";
    PROBE_MEMORY = "probe_bytes", Gauge, "Of RSS, the heap probe's own tables and library.";
    STALLS_LOCK = "stalls_lock", Counter, "Busy periods held up for 1 ms or more by a lock (stalls = true).";
    STALLS_CPU_STARVATION = "stalls_cpu_starvation", Counter, "The same, by waiting for a CPU.";
    STALLS_CPU_QUOTA = "stalls_cpu_quota", Counter, "The same, by a control group's quota.";
    STALLS_DISK = "stalls_disk", Counter, "The same, by a disk.";
    STALLS_NETWORK = "stalls_network", Counter, "The same, by a reply from elsewhere.";
    STALLS_PROCESS = "stalls_process", Counter, "The same, by a child process.";
    STALLS_PAGE_FAULT = "stalls_page_fault", Counter, "The same, by pages that had to be read.";
    STALLS_ALLOCATOR = "stalls_allocator", Counter, "The same, by the allocator.";
    STALLS_RUNTIME = "stalls_runtime", Counter, "The same, by a language's runtime.";
    STALLS_SLEEP = "stalls_sleep", Counter, "The same, by a sleep.";
    STALLS_ON_CPU = "stalls_on_cpu", Counter, "The same, by far more work on a CPU than usual.";
    STALLS_WATCHED = "stalls_watched_ns", Counter, "Time for which the process was watched for stalls.";
    STALLS_LOST = "stalls_records_lost", Counter, "Records of switches that did not fit highwater's ring.";
    STALLS_COST = "stalls_cost_ns", Counter, "CPU that highwater took to watch the process for stalls.";
    THREADS = "threads", Gauge, "Threads.";
    FILE_DESCRIPTORS = "file_descriptors", Gauge, "Entries of /proc/PID/fd.";
    CPU_USER = "cpu_user_ns", Counter, "User CPU of all threads, ended ones included.";
    CPU_SYSTEM = "cpu_system_ns", Counter, "System CPU of all threads, ended ones included.";
    MINOR_FAULTS = "minor_faults", Counter, "Page faults without I/O.";
    MAJOR_FAULTS = "major_faults", Counter, "Page faults with I/O.";
    SWITCHES_VOLUNTARY = "switches_voluntary", Counter, "Sum over task/: blocked by itself.";
    SWITCHES_INVOLUNTARY = "switches_involuntary", Counter, "Sum over task/: preempted.";
    RUN_DELAY = "run_delay_ns", Counter, "Sum over task/ of run-queue wait, schedstat.";
    CGROUP_MEMORY = "cgroup_memory_bytes", Gauge, "Memory charged to the replica's cgroup.";
    CGROUP_MEMORY_PEAK = "cgroup_memory_peak_bytes", Gauge, "Its peak.";
    CGROUP_LIMIT = "cgroup_memory_limit_bytes", Gauge, "Its limit.";
    CGROUP_OOM_KILLS = "cgroup_oom_kills", Counter, "OOM kills in the replica's cgroup.";
    CGROUP_THROTTLED = "cgroup_throttled_ns", Counter, "Time throttled by the CPU quota.";
    PRESSURE_MEMORY_SOME = "pressure_memory_some_ns", Counter, "PSI, total of memory some.";
    PRESSURE_MEMORY_FULL = "pressure_memory_full_ns", Counter, "PSI, total of memory full.";
    PRESSURE_CPU_SOME = "pressure_cpu_some_ns", Counter, "PSI, total of cpu some.";
    PRESSURE_IO_SOME = "pressure_io_some_ns", Counter, "PSI, total of io some.";
    HOST_MEMORY_AVAILABLE = "host_memory_available_bytes", Gauge, "MemAvailable of the machine.";
    HOST_MEMORY_TOTAL = "host_memory_total_bytes", Gauge, "MemTotal of the machine.";
    HOST_LOAD = "host_load_1m", Gauge, "Load average over one minute.";
    HOST_CPU_BUSY = "host_cpu_busy_ns", Counter, "CPU time of all programs and of the kernel, over all CPUs.";
    HOST_CPU_STOLEN = "host_cpu_stolen_ns", Counter, "CPU time needed here that the hypervisor gave another guest.";
    METRICS_FETCH = "metrics_fetch_ns", Gauge, "Time that fetching the process's metrics endpoint took.";
    METRICS_LATE = "metrics_late", Counter, "Snapshots for which the metrics endpoint did not answer in time.";
    METRICS_LEFT_OUT = "metrics_left_out", Gauge, "Series and lines of the endpoint left out: too many or unreadable.";
    LOAD_LINES_LEFT_OUT = "load_lines_left_out", Counter, "Lines of the load program that are not `highwater.load/1`.";
    SNAPSHOT_COST = "look_cost_ns", Gauge, "Wall time that this snapshot took (process: highwater).";
}

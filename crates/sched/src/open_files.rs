//! Files that a watch keeps open: how many, and what is left for others.

use std::io;

/// No descriptor is left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Open files that threads may not take: those of /proc are read with them for as long as the watch lasts.
pub fn spare_files() -> Vec<std::fs::File> {
    const SPARE: usize = 192;
    let open = |_| std::fs::File::open("/dev/null").ok();
    (0..SPARE).map_while(open).collect()
}

/// A thread takes two descriptors a CPU: as many as may be had without asking anybody.
pub fn raise_the_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    let _ = setrlimit(Resource::Nofile, most);
}

//! A cgroup with the memory controller, for the length of a test.

use std::path::{Path, PathBuf};
use std::{fs, io, process, thread, time};

/// One that goes away when it is dropped; no process may be in it by then.
pub struct Cgroup {
    pub folder: PathBuf,
    /// As the kernel's log and `/proc/PID/cgroup` call it.
    pub path: String,
}

impl Cgroup {
    /// # Errors
    /// None can be made here: no root, a read-only hierarchy, no memory controller.
    pub fn new(name: &str, limit_bytes: Option<u64>) -> io::Result<Cgroup> {
        let name = format!("highwater-test-{name}-{}", process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = match v1.join("memory.limit_in_bytes").exists() {
            true => (v1, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let cgroup = Cgroup {
            folder: root.join(&name),
            path: format!("/{name}"),
        };
        fs::create_dir(&cgroup.folder)?;
        fs::read(cgroup.folder.join(limit))?;
        if let Some(bytes) = limit_bytes {
            fs::write(cgroup.folder.join(limit), bytes.to_string())?;
            // Swap would only prolong it; a kernel without it has no such file.
            let _ = fs::write(cgroup.folder.join("memory.swap.max"), "0");
        }
        // What may be made here may still not be joined.
        let join = "echo $$ > \"$0\"";
        let joined = process::Command::new("sh")
            .args(["-c", join])
            .arg(cgroup.procs())
            .stderr(process::Stdio::null())
            .status()?;
        match joined.success() {
            true => Ok(cgroup),
            false => Err(io::Error::other("no process may join it")),
        }
    }

    /// Where a process writes its pid to join.
    pub fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was killed may be there for a moment more.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(time::Duration::from_millis(20));
        }
    }
}

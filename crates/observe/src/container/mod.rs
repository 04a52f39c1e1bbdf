//! Whether this process runs in a container, of which runtime, and which one. In: what runtimes leave where their
//! containers can read it; out: [`Container`].
//!
//! Sources: systemd's "container interface" (`container=` in the environment of process 1), `/.dockerenv`,
//! `/run/.containerenv` of Podman, `KUBERNETES_SERVICE_HOST`, the paths of the runtimes in `/proc/self/mountinfo` and
//! `/proc/self/cgroup`.

mod owner;

use std::fs;
use std::path::Path;

pub use owner::Owner;
use owner::{SHORT_ID, is_id};

/// What made the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Kubernetes,
    Docker,
    Podman,
    Lxc,
    Nspawn,
    Unknown,
}

impl Runtime {
    pub fn words(self) -> &'static str {
        match self {
            Runtime::Kubernetes => "a pod of Kubernetes",
            Runtime::Docker => "a Docker container",
            Runtime::Podman => "a Podman container",
            Runtime::Lxc => "an LXC container",
            Runtime::Nspawn => "a systemd-nspawn container",
            Runtime::Unknown => "a container",
        }
    }
}

/// The container that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub runtime: Runtime,
    /// The first digits of its identifier, where something tells it.
    pub id: Option<String>,
}

impl Container {
    /// Of this process; `None`: nothing speaks of a container.
    pub fn own() -> Option<Container> {
        Traces::read().container()
    }
}

/// What was found of a container.
#[derive(Debug, Default)]
struct Traces {
    /// `container` in the environment of process 1; only root may read it.
    marked: Option<String>,
    dockerenv: bool,
    containerenv: bool,
    is_pod: bool,
    /// `/proc/self/mountinfo`, where runtimes mount files of theirs.
    mounts: String,
    /// `/proc/self/cgroup`.
    cgroups: String,
    /// The PID namespace is the machine's first.
    is_first_namespace: bool,
}

impl Traces {
    fn read() -> Traces {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let environ = fs::read("/proc/1/environ").unwrap_or_default();
        Traces {
            marked: marked(&environ),
            dockerenv: Path::new("/.dockerenv").exists(),
            containerenv: Path::new("/run/.containerenv").exists(),
            is_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
            mounts: text("/proc/self/mountinfo"),
            cgroups: text("/proc/self/cgroup"),
            is_first_namespace: is_first_pid_namespace(),
        }
    }

    fn container(&self) -> Option<Container> {
        let runtime = self.runtime()?;
        Some(Container {
            runtime,
            id: self.id(),
        })
    }

    fn runtime(&self) -> Option<Runtime> {
        let mounts = |part: &str| self.mounts.contains(part);
        let owner = self.owner();
        let is = |runtime: &str| owner.runtime == Some(runtime);
        if self.is_pod || owner.pod.is_some() || mounts("/kubelet/pods/") {
            return Some(Runtime::Kubernetes);
        }
        match self.marked.as_deref() {
            Some("podman") => Some(Runtime::Podman),
            Some("docker") => Some(Runtime::Docker),
            Some("lxc" | "lxc-libvirt") => Some(Runtime::Lxc),
            Some("systemd-nspawn") => Some(Runtime::Nspawn),
            _ if self.containerenv || is("podman") => Some(Runtime::Podman),
            _ if self.dockerenv || is("docker") || mounts("/docker/containers/") => {
                Some(Runtime::Docker)
            }
            _ if is("lxc") => Some(Runtime::Lxc),
            // A namespace of PIDs alone: somebody's unshare, or a runtime that leaves no other trace.
            Some(_) => Some(Runtime::Unknown),
            None if owner.container.is_some() || !self.is_first_namespace => Some(Runtime::Unknown),
            None => None,
        }
    }

    /// What the first path of a container among this process's cgroups says.
    fn owner(&self) -> Owner {
        let paths = self
            .cgroups
            .lines()
            .filter_map(|line| line.splitn(3, ':').nth(2));
        let mut owners = paths.map(Owner::of);
        let is_container = |owner: &Owner| owner.container.is_some() || owner.pod.is_some();
        owners.find(is_container).unwrap_or_default()
    }

    /// From the cgroup, or a folder of a mounted file's path.
    fn id(&self) -> Option<String> {
        let mounted = || {
            self.mounts
                .split(['/', ' '])
                .find(|part| is_id(part))
                .map(str::to_owned)
        };
        let id = self.owner().container.or_else(mounted)?;
        Some(id.get(..SHORT_ID).unwrap_or(&id).to_owned())
    }
}

/// The value of `container` in an environment as /proc has it: entries that end with a zero byte.
fn marked(environ: &[u8]) -> Option<String> {
    let mut entries = environ.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(b"container="))?;
    Some(String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty())
}

/// Whether this process is in the machine's first PID namespace, by its inode (PROC_PID_INIT_INO of the kernel).
pub fn is_first_pid_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a";

    fn machine() -> Traces {
        Traces {
            is_first_namespace: true,
            mounts: "23 28 0:21 / /proc rw - proc proc rw\n".to_owned(),
            cgroups: "0::/init.scope\n".to_owned(),
            ..Traces::default()
        }
    }

    #[test]
    fn a_machine_of_its_own_is_no_container() {
        assert_eq!(machine().container(), None);
    }

    #[test]
    fn docker_is_known_by_the_files_that_it_mounts() {
        let mount = format!(
            "612 598 0:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/vda rw\n"
        );
        let traces = Traces {
            mounts: mount,
            ..machine()
        };
        let expected = Container {
            runtime: Runtime::Docker,
            id: Some("3f2a1b0c9d8e".to_owned()),
        };
        assert_eq!(traces.container(), Some(expected));
    }

    #[test]
    fn a_pod_is_more_than_its_container() {
        let pod = "8f1c2b7e_4d0a_4c52_9a37_5e0f1b2c3d4e";
        let cgroup =
            format!("0::/kubepods.slice/kubepods-pod{pod}.slice/cri-containerd-{ID}.scope\n");
        let of = |cgroups: String, is_pod| Traces {
            cgroups,
            is_pod,
            dockerenv: true,
            ..machine()
        };
        for traces in [of(cgroup, false), of(String::new(), true)] {
            let found = traces.container().unwrap();
            assert_eq!(found.runtime, Runtime::Kubernetes);
        }
    }

    #[test]
    fn what_process_1_says_decides_between_the_others() {
        for (word, runtime) in [
            ("podman", Runtime::Podman),
            ("lxc", Runtime::Lxc),
            ("systemd-nspawn", Runtime::Nspawn),
            ("oci", Runtime::Unknown),
        ] {
            let traces = Traces {
                marked: Some(word.to_owned()),
                ..machine()
            };
            assert_eq!(traces.container().unwrap().runtime, runtime, "{word}");
        }
        assert_eq!(
            marked(b"PATH=/bin\0container=podman\0").as_deref(),
            Some("podman")
        );
        assert_eq!(marked(b"container=\0my_container=x\0"), None);
    }

    #[test]
    fn a_pid_namespace_alone_is_some_container() {
        let traces = Traces {
            is_first_namespace: false,
            ..machine()
        };
        let found = traces.container().unwrap();
        assert_eq!((found.runtime, found.id), (Runtime::Unknown, None));
    }
}

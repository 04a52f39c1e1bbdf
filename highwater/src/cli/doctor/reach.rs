//! Where highwater runs, and the exact lines that let it see more from there.

use bpf::allowed::Allowed;
use observe::container::{Container, Runtime};

/// The image as `make dist` names it.
const IMAGE: &str = concat!("highwater:", env!("CARGO_PKG_VERSION"));

/// In words: on the machine or in which container, and whose processes are seen.
pub fn place(container: Option<&Container>, allowed: &Allowed) -> String {
    let user = match allowed.uid {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    };
    let Some(container) = container else {
        return format!("On the machine itself, as {user}. What each command can do:");
    };
    let id = container
        .id
        .as_ref()
        .map_or(String::new(), |id| format!(" ({id})"));
    let sees = match allowed.first_pid_namespace {
        true => "sees the processes of the whole machine",
        false => "sees the processes of its own PID namespace",
    };
    format!(
        "In {}{id}, as {user}; it {sees}. What each command can do:",
        container.runtime.words()
    )
}

/// What could be seen from where, with the line that gets there. None where nothing is missing.
pub fn ways(container: Option<&Container>, allowed: &Allowed) -> Vec<(String, String)> {
    let Some(container) = container else {
        return Vec::new();
    };
    let is_all = allowed.first_pid_namespace && allowed.uprobes.is_ok() && allowed.bpf.is_ok();
    if is_all {
        return Vec::new();
    }
    let way = |what: &str, line: String| (what.to_owned(), line);
    match container.runtime {
        Runtime::Kubernetes => {
            let pod = std::env::var("HOSTNAME").unwrap_or_else(|_| "POD".to_owned());
            vec![
                way(
                    "one container of a pod, from beside it",
                    format!(
                        "kubectl debug -it {pod} --image={IMAGE} --target=CONTAINER --profile=sysadmin -- \
                         /highwater explain --pid 1"
                    ),
                ),
                way(
                    "every process of the node, stalls with eBPF",
                    format!(
                        "kubectl debug node/NODE -it --image={IMAGE} --profile=sysadmin -- /highwater stalls --pid N"
                    ),
                ),
            ]
        }
        Runtime::Docker | Runtime::Podman => {
            let tool = match container.runtime {
                Runtime::Podman => "podman",
                _ => "docker",
            };
            let own = container.id.as_deref().unwrap_or("CONTAINER");
            vec![
                way(
                    "one container, from beside it",
                    format!(
                        "{tool} run --rm -it --pid=container:{own} --privileged {IMAGE} explain --pid 1"
                    ),
                ),
                way(
                    "every process of the machine, stalls with eBPF",
                    format!("{tool} run --rm -it --pid=host --privileged {IMAGE} stalls --pid N"),
                ),
            ]
        }
        _ => vec![way(
            "every process of the machine, stalls with eBPF",
            "run highwater on the host, with the PID that `ps` shows there".to_owned(),
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(runtime: Runtime) -> Vec<(String, String)> {
        let container = Container {
            runtime,
            id: Some("3f2a1b0c9d8e".to_owned()),
        };
        let mut allowed = Allowed::try_all();
        allowed.first_pid_namespace = false;
        ways(Some(&container), &allowed)
    }

    #[test]
    fn each_runtime_has_lines_of_its_own_tool() {
        for (runtime, tool) in [
            (Runtime::Docker, "docker run"),
            (Runtime::Podman, "podman run"),
            (Runtime::Kubernetes, "kubectl debug"),
        ] {
            let lines = within(runtime);
            assert_eq!(lines.len(), 2);
            assert!(
                lines.iter().all(|(_, line)| line.starts_with(tool)),
                "{lines:?}"
            );
        }
        assert!(
            within(Runtime::Docker)[0]
                .1
                .contains("--pid=container:3f2a1b0c9d8e")
        );
    }

    #[test]
    fn on_the_machine_itself_there_is_nothing_more_to_reach() {
        assert_eq!(ways(None, &Allowed::try_all()), []);
    }
}

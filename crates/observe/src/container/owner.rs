//! What a cgroup's path says: pod, container, unit of systemd. In: the path; out: [`Owner`].

/// Whose cgroup it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// "docker", "containerd", "cri-o", "podman", "lxc"; `None` where only an id shows that it is one.
    pub runtime: Option<&'static str>,
    /// Whole; 64 hexadecimal digits, or the name of an lxc container.
    pub container: Option<String>,
    /// Of Kubernetes, with dashes.
    pub pod: Option<String>,
    /// "guaranteed", "burstable", "besteffort".
    pub quality_of_service: Option<&'static str>,
    /// The innermost service, scope or slice of systemd that is no container's.
    pub unit: Option<String>,
}

/// Letters of an id that tell containers apart, as `docker ps` prints them.
pub const SHORT_ID: usize = 12;

impl Owner {
    /// From a path such as
    /// `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`.
    pub fn of(path: &str) -> Owner {
        let mut owner = Owner::default();
        let mut before = "";
        for part in path.split('/').filter(|part| !part.is_empty()) {
            owner.part(part, before);
            before = part;
        }
        if owner.pod.is_some() && owner.quality_of_service.is_none() {
            owner.quality_of_service = Some("guaranteed");
        }
        owner
    }

    fn part(&mut self, part: &str, before: &str) {
        let name = part.strip_suffix(".scope").unwrap_or(part);
        let name = name.strip_suffix(".slice").unwrap_or(name);
        for quality in ["burstable", "besteffort"] {
            if name == quality || name == format!("kubepods-{quality}") {
                self.quality_of_service = Some(quality);
            }
        }
        if let Some(pod) = pod_of(name) {
            self.pod = Some(pod);
        } else if let Some((runtime, id)) = container_of(name, before) {
            self.runtime = runtime;
            self.container = Some(id.to_owned());
        } else if [".service", ".scope", ".slice"]
            .iter()
            .any(|kind| part.ends_with(kind))
            && !name.starts_with("kubepods")
        {
            self.unit = Some(part.to_owned());
        }
    }

    /// "container 3f2a91c07bde of pod 8f1c2b7e-...", "batch.service"; `None` where the path names neither.
    pub fn name(&self) -> Option<String> {
        let short = |id: &str| id.get(..SHORT_ID).unwrap_or(id).to_owned();
        match (&self.container, &self.pod) {
            (Some(id), Some(pod)) => Some(format!("container {} of pod {pod}", short(id))),
            (Some(id), None) => Some(format!(
                "{}container {}",
                runtime_word(self.runtime),
                short(id)
            )),
            (None, Some(pod)) => Some(format!("pod {pod}")),
            (None, None) => self.unit.clone(),
        }
    }
}

fn runtime_word(runtime: Option<&str>) -> String {
    runtime.map_or_else(String::new, |runtime| format!("{runtime} "))
}

/// `pod8f1c2b7e-4d0a-...`, or `kubepods-burstable-pod8f1c2b7e_4d0a_...`.
fn pod_of(name: &str) -> Option<String> {
    let uid = match name.strip_prefix("kubepods") {
        Some(rest) => rest.split_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_uid.then_some(uid)
}

fn container_of<'a>(name: &'a str, before: &str) -> Option<(Option<&'static str>, &'a str)> {
    const PREFIXES: [(&str, &str); 6] = [
        ("docker-", "docker"),
        ("cri-containerd-", "containerd"),
        ("crio-", "cri-o"),
        ("libpod-", "podman"),
        ("nerdctl-", "containerd"),
        ("lxc.payload.", "lxc"),
    ];
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = name.strip_prefix(prefix)
            && (is_id(id) || runtime == "lxc")
        {
            return Some((Some(runtime), id));
        }
    }
    match before {
        "docker" if is_id(name) => Some((Some("docker"), name)),
        "lxc" => Some((Some("lxc"), name)),
        _ => is_id(name).then_some((None, name)),
    }
}

pub(super) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_usual_runtimes() {
        let id = "3f2a91c07bde4458a6f10c9d2e7b5a8413c6d0f9e2b7a5483c1d6e9f0a2b4c8d";
        let pod = "8f1c2b7e-4d0a-4c52-9a37-5e0f1b2c3d4e";
        let under = pod.replace('-', "_");
        let cases = [
            (
                format!("/docker/{id}"),
                "docker container 3f2a91c07bde".to_owned(),
            ),
            (
                format!("/system.slice/docker-{id}.scope"),
                "docker container 3f2a91c07bde".to_owned(),
            ),
            (
                format!("/machine.slice/libpod-{id}.scope"),
                "podman container 3f2a91c07bde".to_owned(),
            ),
            (
                format!("/kubepods/burstable/pod{pod}/{id}"),
                format!("container 3f2a91c07bde of pod {pod}"),
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{under}.slice/\
                     cri-containerd-{id}.scope"
                ),
                format!("container 3f2a91c07bde of pod {pod}"),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{under}.slice"),
                format!("pod {pod}"),
            ),
            (
                "/lxc.payload.web1/system.slice/nginx.service".to_owned(),
                "lxc container web1".to_owned(),
            ),
            (
                "/system.slice/batch.service".to_owned(),
                "batch.service".to_owned(),
            ),
            (
                "/user.slice/user-1000.slice/session-3.scope".to_owned(),
                "session-3.scope".to_owned(),
            ),
        ];
        for (path, name) in cases {
            assert_eq!(
                Owner::of(&path).name().as_deref(),
                Some(name.as_str()),
                "{path}"
            );
        }
        assert_eq!(Owner::of("/mine/a").name(), None);
        assert_eq!(
            Owner::of(&format!("/kubepods.slice/kubepods-pod{under}.slice")).quality_of_service,
            Some("guaranteed")
        );
        let found = Owner::of(&format!("/kubepods/burstable/pod{pod}/{id}"));
        assert_eq!(found.quality_of_service, Some("burstable"));
    }
}

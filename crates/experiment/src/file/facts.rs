//! What /proc and its own ports tell of a running program, for [`super::draft`].

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};

use super::draft::{Listening, ProgramFacts};

/// Ports asked for `/metrics` and the like; a program with more is no ordinary service.
const PORTS_ASKED_MAX: usize = 8;
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
/// Paths that services commonly answer; only GET, which by convention changes nothing.
const PATHS_ASKED: &[&str] = &["/metrics", "/_health", "/healthz", "/health", "/readyz"];

/// Reads what can be read of process `pid`; what cannot is named in `unread`. With `ask`, each port on which it
/// listens gets a few GET requests over loopback, to learn whether it answers `/metrics` or `/healthz`.
pub fn read_facts(pid: i32, ask: bool) -> Result<ProgramFacts> {
    let process = Process::new(pid)
        .with_context(|| format!("process {pid}: not there, or not yours; see `ps -p {pid}`"))?;
    let mut unread = Vec::new();
    let mut note = |what: &str, error: procfs::ProcError| unread.push(format!("{what}: {error}"));
    let exe = process.exe().map_err(|e| note("executable", e)).ok();
    let command = process
        .cmdline()
        .map_err(|e| note("command line", e))
        .unwrap_or_default();
    anyhow::ensure!(
        exe.is_some() || !command.is_empty(),
        "process {pid} runs no program: it is a thread of the kernel, or has ended and waits for its parent"
    );
    let directory = process.cwd().map_err(|e| note("working folder", e)).ok();
    let environment = process
        .environ()
        .map_err(|e| note("environment", e))
        .unwrap_or_default();
    let mut environment: Vec<(String, String)> = environment
        .into_iter()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into(),
                value.to_string_lossy().into(),
            )
        })
        .collect();
    environment.sort();
    let status = process.status().map_err(|e| note("status", e)).ok();
    let mut listening = read_listening(&process)
        .map_err(|e| note("open ports", e))
        .unwrap_or_default();
    let cgroups = process.cgroups().map_err(|e| note("cgroup", e)).ok();
    let unit = cgroups.and_then(|groups| {
        groups
            .0
            .iter()
            .find_map(|group| parse_unit(&group.pathname))
    });
    if ask {
        listening
            .iter_mut()
            .take(PORTS_ASKED_MAX)
            .for_each(|port| port.answers = ask_port(port));
    }
    Ok(ProgramFacts {
        pid,
        exe: exe.map(|exe| parse_exe(&exe)),
        command,
        directory,
        environment,
        listening,
        rss_bytes: status
            .as_ref()
            .and_then(|status| status.vmrss)
            .map(|kib| kib * 1024),
        threads: status.map(|status| status.threads),
        unit,
        unread,
    })
}

/// Sockets in the state LISTEN that the process has open, by port.
fn read_listening(process: &Process) -> procfs::ProcResult<Vec<Listening>> {
    let mut inodes = BTreeSet::new();
    for fd in process.fd()?.flatten() {
        if let FDTarget::Socket(inode) = fd.target {
            inodes.insert(inode);
        }
    }
    let mut sockets = process.tcp()?;
    // No IPv6 in the kernel is no reason to find nothing.
    sockets.extend(process.tcp6().unwrap_or_default());
    let mut seen = BTreeSet::new();
    let mut listening: Vec<Listening> = sockets
        .into_iter()
        .filter(|socket| socket.state == TcpState::Listen && inodes.contains(&socket.inode))
        .filter(|socket| seen.insert(socket.local_address.port()))
        .map(|socket| Listening {
            address: socket.local_address.ip().to_string(),
            port: socket.local_address.port(),
            answers: Vec::new(),
        })
        .collect();
    listening.sort_by_key(|socket| socket.port);
    Ok(listening)
}

/// Which of the usual paths answer 200. The first that does not even connect ends the asking.
fn ask_port(listening: &Listening) -> Vec<String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(ASK_TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    let mut answers = Vec::new();
    for path in PATHS_ASKED {
        match agent.get(format!("{}{path}", address_of(listening))).call() {
            Ok(response) if response.status().as_u16() == 200 => answers.push((*path).to_owned()),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    answers
}

/// Where to ask: a socket on every address is asked on loopback.
fn address_of(listening: &Listening) -> String {
    match listening.address.as_str() {
        "0.0.0.0" | "::" => format!("http://127.0.0.1:{}", listening.port),
        six if six.contains(':') => format!("http://[{six}]:{}", listening.port),
        four => format!("http://{four}:{}", listening.port),
    }
}

/// The systemd unit of a cgroup path: its innermost part that ends in `.service`.
/// From systemd.unit(5): system services live in `/system.slice/NAME.service`, a user's below `user@UID.service`.
pub(crate) fn parse_unit(path: &str) -> Option<String> {
    path.rsplit('/')
        .find(|part| part.ends_with(".service"))
        .filter(|part| !part.starts_with("user@"))
        .map(str::to_owned)
}

/// The kernel marks a replaced file; the new one stands at the same path.
fn parse_exe(exe: &Path) -> std::path::PathBuf {
    let text = exe.to_string_lossy();
    match text.strip_suffix(" (deleted)") {
        Some(before) => before.into(),
        None => exe.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_cgroups() {
        let cases = [
            ("/system.slice/relay.service", Some("relay.service")),
            (
                "/system.slice/system-tor.slice/tor@r17.service",
                Some("tor@r17.service"),
            ),
            ("/system.slice/relay.service/worker", Some("relay.service")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope",
                None,
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
                Some("x.service"),
            ),
            ("/", None),
        ];
        for (path, unit) in cases {
            assert_eq!(parse_unit(path).as_deref(), unit, "{path}");
        }
    }

    #[test]
    fn a_replaced_executable_keeps_its_path() {
        assert_eq!(
            parse_exe(Path::new("/bin/x (deleted)")),
            Path::new("/bin/x")
        );
        assert_eq!(parse_exe(Path::new("/bin/x")), Path::new("/bin/x"));
    }

    #[test]
    fn this_process_is_read_with_the_port_it_listens_on() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        let facts = read_facts(std::process::id() as i32, false).expect("this process");
        assert!(
            facts.listening.iter().any(|l| l.port == port),
            "{:?}",
            facts.listening
        );
        assert!(facts.rss_bytes.is_some_and(|rss| rss > 1 << 20));
        assert_eq!(facts.exe, std::env::current_exe().ok());
        assert!(!facts.command.is_empty() && facts.directory.is_some());
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let words = format!("{:#}", read_facts(i32::MAX, false).unwrap_err());
        assert!(words.contains("process 2147483647: not there"), "{words}");
    }
}

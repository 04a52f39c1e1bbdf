//! What can be known to be wrong before anything is started: in words, all of it at once.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use procfs::net::{TcpNetEntry, TcpState};

use super::attach::Attached;
use super::fake::Fake;
use super::placeholder::{PORTS_PER_PROCESS_MAX, Values, expand, ports_wanted};
use super::service::cgroup::Hierarchy;
use super::service::{Launch, Preload, Setup, read_stat, texts_of_backing};
use crate::file::{Arm, BackingPlan, Condition, Experiment, LoadPer, Ready, SubjectKind};

/// Variables by which an allocator is steered. Inherited from whoever started highwater, they steer every arm.
const ALLOCATOR_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "MIMALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "SCUDO_OPTIONS",
    "TCMALLOC_",
    "RPMALLOC_",
    "SNMALLOC_",
];

/// Says in words why a library cannot be preloaded into a program; the observer, which reads programs, knows.
pub type PreloadProblem<'a> = &'a dyn Fn(&Path, &Path) -> Option<String>;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Each of them makes the run impossible.
    pub problems: Vec<String>,
    /// What is lost or distorted; the run goes on.
    pub warnings: Vec<String>,
}

/// Looks at the plan and at this machine. Starts and changes nothing.
pub fn preflight(plan: &Experiment, setup: &Setup, preload_problem: PreloadProblem) -> Findings {
    let mut findings = Findings::default();
    match plan.subject.kind {
        SubjectKind::Service => check_service(plan, setup, preload_problem, &mut findings),
        SubjectKind::Attach => match Attached::new(plan, &setup.run) {
            Ok(attached) => findings.warnings.extend(attached.notes().to_vec()),
            Err(why) => findings.problems.push(why),
        },
        // The store is asked by the run itself: no process is on this machine.
        SubjectKind::Remote => {}
        SubjectKind::Fake => findings.problems.extend(Fake::new(plan, &setup.run).err()),
    }
    findings
}

/// The program that an arm's processes run, where it can be found.
pub fn program_of(plan: &Experiment, arm: &Arm) -> Option<PathBuf> {
    let values = example_values(plan, false);
    let launch = Launch::of_subject(plan, arm, &Preload::default(), &values).ok()?;
    launch.program().ok()
}

fn check_service(
    plan: &Experiment,
    setup: &Setup,
    preload_problem: PreloadProblem,
    findings: &mut Findings,
) {
    check_backing(plan, findings);
    let none = Preload::default();
    for arm in &plan.arms {
        let preload = setup.preloads.get(&arm.name).unwrap_or(&none);
        let launch = Launch::of_subject(plan, arm, preload, &example_values(plan, false));
        let at = format!("arm {}", arm.name);
        let Some(program) = check_launch(&at, launch.map_err(|error| error.to_string()), findings)
        else {
            continue;
        };
        if let Some(library) = &preload.library {
            let problem = library_problem(library).or_else(|| preload_problem(&program, library));
            findings
                .problems
                .extend(problem.map(|problem| format!("{at}: {problem}")));
        }
    }
    if let Some(load) = &plan.load {
        let values = example_values(plan, true);
        let whole_run = Values {
            processes: values.processes.clone(),
            backing: values.backing.clone(),
            ..Values::default()
        };
        let values = if load.per == LoadPer::Run {
            whole_run
        } else {
            values
        };
        let launch = Launch::of_load(plan, load, &values);
        check_launch("load", launch.map_err(|error| error.to_string()), findings);
    }
    if let Some(Err(why)) = plan
        .subject
        .metrics
        .as_ref()
        .map(|url| expand(url, &example_values(plan, true)))
    {
        findings.problems.push(format!("metrics: {why}"));
    }
    check_conditions(plan, findings);
    check_ready(plan, findings);
    check_surroundings(plan, setup, findings);
}

/// What the placeholders may stand for: the folders need not exist, the ports are nobody's.
fn example_values(plan: &Experiment, running: bool) -> Values {
    Values {
        run: "run".into(),
        arm: Some("arm".into()),
        replica: Some(0),
        data: Some("/".into()),
        seed: 1,
        pid: running.then_some(1),
        unit: None,
        ports: vec![1; PORTS_PER_PROCESS_MAX],
        processes: running.then(|| "/".into()),
        backing: plan.backing.as_ref().map(example_backing),
    }
}

/// The programs of conditions exist: a run of days must not find out at its end.
fn check_conditions(plan: &Experiment, findings: &mut Findings) {
    let tables = [("verify", &plan.verify), ("guard", &plan.guard)];
    for (at, check) in tables
        .iter()
        .flat_map(|(at, all)| all.iter().map(move |check| (at, check)))
    {
        let Condition::Command { command, .. } = &check.condition else {
            continue;
        };
        let launch = Launch::of_check(&plan.base, command, &example_values(plan, true));
        check_launch(at, launch.map_err(|error| error.to_string()), findings);
    }
}

/// It has a port for others when it has one itself.
fn example_backing(backing: &BackingPlan) -> (PathBuf, Option<u16>) {
    let has_port = ports_wanted(texts_of_backing(backing)) > 0;
    ("/".into(), has_port.then_some(1))
}

fn check_backing(plan: &Experiment, findings: &mut Findings) {
    let Some(backing) = &plan.backing else { return };
    let values = Values {
        data: Some("/".into()),
        ports: vec![1; PORTS_PER_PROCESS_MAX],
        run: "run".into(),
        ..Values::default()
    };
    let launch = Launch::of_backing(plan, backing, &values);
    check_launch(
        "backing",
        launch.map_err(|error| error.to_string()),
        findings,
    );
}

/// The program's path, when nothing is wrong with it.
fn check_launch(
    at: &str,
    launch: Result<Launch, String>,
    findings: &mut Findings,
) -> Option<std::path::PathBuf> {
    let checked = launch.and_then(|launch| {
        if !launch.directory.is_dir() {
            return Err(format!(
                "there is no folder {} to work in",
                launch.directory.display()
            ));
        }
        launch.program()
    });
    match checked {
        Ok(program) => Some(program),
        Err(why) => {
            findings.problems.push(format!("{at}: {why}"));
            None
        }
    }
}

fn library_problem(library: &Path) -> Option<String> {
    let name = library.display();
    if !library.is_file() {
        return Some(format!(
            "there is no library {name}; `highwater allocators list` shows what is installed"
        ));
    }
    // The dynamic linker cuts LD_PRELOAD at both.
    let cut = library.to_string_lossy().contains([' ', ':']);
    cut.then(|| {
        format!("{name} has a space or a colon in its path: the dynamic linker cannot preload it")
    })
}

fn check_ready(plan: &Experiment, findings: &mut Findings) {
    let text = match &plan.subject.ready {
        None => return,
        Some(Ready::Log { regex }) => {
            let broken = regex::Regex::new(regex).err();
            findings
                .problems
                .extend(broken.map(|error| format!("ready: {error}")));
            return;
        }
        Some(Ready::Http { url, .. }) => url,
        Some(Ready::Tcp { address }) => address,
    };
    if let Err(why) = expand(text, &example_values(plan, true)) {
        findings.problems.push(format!("ready: {why}"));
    }
    let Some((host, port)) = parse_fixed_port(text) else {
        return;
    };
    let processes = plan.arms.len() * plan.replicas as usize;
    if processes > 1 {
        findings.problems.push(format!(
            "all {processes} processes would use port {port} ({text}): write {{port}} there and in the command, and \
             each gets a free one"
        ));
    } else if let Some(listener) = read_listener(&host, port) {
        findings.problems.push(format!(
            "port {port} is in use by {listener}: stop it, or write {{port}} in place of {port} to get a free one"
        ));
    }
}

fn check_surroundings(plan: &Experiment, setup: &Setup, findings: &mut Findings) {
    let signal = plan.subject.stop.signal;
    if rustix::process::Signal::from_named_raw(signal).is_none() {
        findings.problems.push(format!(
            "stop: {signal} is no signal that can be sent; SIGTERM is 15"
        ));
    }
    if let Hierarchy::None { why } = &setup.hierarchy {
        findings.warnings.push(why.clone());
    }
    for (name, value) in std::env::vars() {
        if ALLOCATOR_VARIABLES
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            let words = format!(
                "{name}={value} is set where highwater runs, and so in every arm that does not change it"
            );
            findings.warnings.push(words);
        }
    }
}

/// Host and port of a URL or address whose port is a number.
fn parse_fixed_port(text: &str) -> Option<(String, u16)> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None if scheme == "http" => (authority, 80),
        None if scheme == "https" => (authority, 443),
        None => return None,
    };
    Some((host.trim_matches(['[', ']']).to_owned(), port))
}

/// Who listens on this port of this machine, in words. `None` when nobody does, or `host` is another machine.
fn read_listener(host: &str, port: u16) -> Option<String> {
    let address = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        other => other.parse().ok()?,
    };
    if !(address.is_loopback() || address.is_unspecified()) {
        return None;
    }
    let tables = [procfs::net::tcp(), procfs::net::tcp6()]
        .into_iter()
        .flatten()
        .flatten();
    let clashes = |entry: &TcpNetEntry| {
        let local = entry.local_address.ip().to_canonical();
        let same = local == address || local.is_unspecified() || address.is_unspecified();
        entry.state == TcpState::Listen && entry.local_address.port() == port && same
    };
    let entry = tables.into_iter().find(clashes)?;
    Some(
        read_socket_owner(entry.inode)
            .unwrap_or_else(|| "a process that cannot be seen without root".into()),
    )
}

/// `pid 4242 (nginx)`.
fn read_socket_owner(inode: u64) -> Option<String> {
    let link = format!("socket:[{inode}]");
    let has_socket = |pid: &i32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|target| target.as_os_str() == link.as_str())
    };
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pid = pids.find(has_socket)?;
    let name = read_stat(pid).map_or(String::new(), |stat| stat.comm);
    Some(format!("pid {pid} ({})", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_ports_are_seen_and_placeholders_are_not() {
        let seen = |text| parse_fixed_port(text).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(
            seen("http://127.0.0.1:8080/health?x=:1").as_deref(),
            Some("127.0.0.1 8080")
        );
        assert_eq!(seen("http://localhost/").as_deref(), Some("localhost 80"));
        assert_eq!(seen("http://u:p@[::1]:9/").as_deref(), Some("::1 9"));
        assert_eq!(seen("localhost:6379").as_deref(), Some("localhost 6379"));
        assert_eq!(seen("http://127.0.0.1:{port}/"), None);
        assert_eq!(seen("127.0.0.1:{port2}"), None);
    }

    #[test]
    fn a_listener_is_named_with_its_pid() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let words = read_listener("localhost", port).unwrap();
        assert!(
            words.starts_with(&format!("pid {} (", std::process::id())),
            "{words}"
        );
        assert!(read_listener("0.0.0.0", port).is_some());
        assert_eq!(
            read_listener("192.0.2.1", port),
            None,
            "another machine's port"
        );
        drop(listener);
        assert_eq!(read_listener("127.0.0.1", port), None);
    }

    #[test]
    fn libraries_that_cannot_be_preloaded() {
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("my lib.so");
        fs::write(&spaced, "").unwrap();
        assert!(library_problem(&spaced).unwrap().contains("space"));
        assert!(
            library_problem(Path::new("/nonexistent/lib.so"))
                .unwrap()
                .contains("no library")
        );
        let plain = folder.path().join("lib.so");
        fs::write(&plain, "").unwrap();
        assert_eq!(library_problem(&plain), None);
    }
}

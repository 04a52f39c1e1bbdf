//! Two hosts, played by two network namespaces with a cable each to this one: an endpoint on each, one store that
//! scrapes both, and one that is down for a while. Long, and root's alone.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use observe::snapshot::Role;
use record::run::Run;

use super::dashboard::dashboard_expressions;
use super::fleet::{Service, remote, scrape, wait_for_samples};
use super::scene::{Scene, is_root, said, wait};
use super::stage::Endpoint;
use super::store::{Running, Store, ask, package, prometheus, prometheus_at, victoria_at};
use testkit::free_port;
use testkit::skipped;

/// A network namespace with one cable; it goes with the test.
struct Host {
    name: String,
    address: String,
}

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|done| done.status.success())
}

impl Host {
    /// `None` where this machine does not allow it.
    fn new(name: &str, net: u8) -> Option<Host> {
        let tag = std::process::id() % 10_000;
        let host = Host {
            name: format!("hw{name}{net}{tag}"),
            address: format!("10.231.{net}.2"),
        };
        let (space, cable) = (&host.name, format!("hwv{net}{tag}"));
        let steps = [
            format!("netns add {space}"),
            format!("link add {cable} type veth peer name eth0 netns {space}"),
            format!("addr add 10.231.{net}.1/30 dev {cable}"),
            format!("link set {cable} up"),
            format!("-n {space} addr add {}/30 dev eth0", host.address),
            format!("-n {space} link set eth0 up"),
            format!("-n {space} link set lo up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(host)
    }

    fn before(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// The endpoint on this host's own address.
    fn observe(&self, service: &Service, label: &str) -> Running {
        let mut command = Command::new("ip");
        command
            .args(&self.before()[1..])
            .arg(env!("CARGO_BIN_EXE_highwater"));
        command.args(["observe", "--interval", "1s", "--host", label, "--listen"]);
        command
            .arg(format!("{}:9842", self.address))
            .args(service.arms());
        Running::start(&mut command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.name));
    }
}

/// What starts a store: programs, folder, configuration, port.
type StoreAt = fn(&Path, &Path, &str, u16) -> Command;

#[test]
#[ignore = "two minutes, and root: namespaces, a store that goes away and comes back"]
fn two_hosts_are_one_experiment_and_a_prometheus_that_was_down_leaves_a_hole_that_is_said() {
    two_hosts_are_one_experiment("prometheus", prometheus_at, 81);
}

#[test]
#[ignore = "two minutes, and root: namespaces, a store that goes away and comes back"]
fn two_hosts_are_one_experiment_and_a_victoria_metrics_that_was_down_leaves_a_hole_that_is_said() {
    two_hosts_are_one_experiment("victoria-metrics", victoria_at, 83);
}

/// The hosts have networks of their own, `net` and the next.
fn two_hosts_are_one_experiment(package_name: &str, store_at: StoreAt, net: u8) {
    let (Some(programs), true) = (package(package_name), is_root()) else {
        return skipped(&format!(
            "network namespaces need root and `ip`, the store needs {package_name}"
        ));
    };
    let (Some(a), Some(b)) = (Host::new("a", net), Host::new("b", net + 1)) else {
        return skipped("`ip netns add` or a veth is not allowed here");
    };
    // One service on each host, so that no selector reaches over: a namespace of the network sees all processes.
    let (on_a, on_b) = (Service::new(), Service::new());
    let mut processes = Vec::new();
    for (host, service) in [(&a, &on_a), (&b, &on_b)] {
        processes.push(service.start("leaky", &host.before()));
        processes.push(service.start("tight", &host.before()));
        processes.push(host.observe(service, &host.name));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let targets = [format!("{}:9842", a.address), format!("{}:9842", b.address)];
    let config = scrape(&targets.each_ref().map(String::as_str));
    let port = free_port();
    let start = || Running::start(&mut store_at(&programs, folder.path(), &config, port));
    let mut store = Some(start());
    let url = format!("http://127.0.0.1:{port}");
    let asked = |query: &str| ask(&url, query);
    wait("samples of both hosts", || {
        let count = asked("count(count_over_time(highwater_rss_bytes[1h]) > 3)");
        (count >= 4.0).then_some(())
    });
    let scene = Scene::new();
    let child = scene.start(&remote("60s", &url), &["--json", "--quiet"]);
    wait("some snapshots", || {
        let run = scene.record();
        (run.last.0 - run.begun.0 > 12_000_000_000).then_some(())
    });
    drop(store.take());
    std::thread::sleep(Duration::from_secs(12));
    store = Some(start());
    let ended = said(child.wait_with_output().expect("its end"));
    assert_eq!(ended.code, scene.verdict_code(), "{ended:?}");
    let run = scene.record();
    let told = |words: &str| run.events.iter().any(|e| e.words.contains(words));
    for words in ["does not answer", "answers again", "snapshots are missing"] {
        assert!(told(words), "{words}: {:#?}", run.events);
    }
    assert_one_on_each_host(&run, &a.name);
    let verdict: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let label = |at: usize| verdict["arms"][at]["label"].clone();
    assert_eq!(
        (label(0), label(1)),
        ("growing".into(), "flat".into()),
        "{verdict:#}"
    );
    drop((store, processes));
}

/// Two processes an arm, one on each host, none twice.
fn assert_one_on_each_host(run: &Run, first: &str) {
    let on_first = format!("host {first}");
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    let mut hosts: Vec<(&str, bool)> = subjects
        .map(|p| (p.arm.as_str(), p.command[0].contains(&on_first)))
        .collect();
    hosts.sort_unstable();
    let both = [
        ("leaky", false),
        ("leaky", true),
        ("tight", false),
        ("tight", true),
    ];
    assert_eq!(hosts, both);
}

/// Every expression of the dashboard gives something on a Prometheus that scrapes a run with a memory limit.
#[test]
#[ignore = "half a minute; cgroups need root"]
fn every_expression_of_the_dashboard_gives_something() {
    let Some(programs) = package("prometheus") else {
        return;
    };
    let service = Service::new();
    let scene = Scene::new();
    let path = service.path("leaky").display().to_string();
    let experiment = format!(
        "name = \"board\"\ncontrol = \"a\"\nreplicas = 1\nduration = \"5m\"\ninterval = \"1s\"\nwarmup = \"1s\"\n\
         [subject]\ncommand = \"{path} 20000 100 600\"\nmemory_limit = \"512MiB\"\n[[arms]]\nname = \"a\"\n\
         [[arms]]\nname = \"b\"\n"
    );
    let mut run = scene.start(&experiment, &["--quiet"]);
    let record = scene.run_folder();
    wait("the processes of the run", || {
        let run = scene.record();
        let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
        (subjects.count() == 2).then_some(())
    });
    let path = record.path().display().to_string();
    let endpoint = Endpoint::start(&scene, &["--run", &path, "--interval", "1s"]);
    let with_cgroup = endpoint
        .page()
        .samples
        .contains_key("highwater_cgroup_memory_limit_bytes");
    let folder = tempfile::tempdir().expect("a folder");
    let store: Store = prometheus(&programs, folder.path(), &scrape(&[endpoint.address()]));
    wait_for_samples(&store, 2.0);
    // A rate wants two samples, and the slower readings come now and then.
    std::thread::sleep(Duration::from_secs(10));
    let annotation = |e: &&String| !e.contains("changes(");
    let mut asked = 0;
    for expression in dashboard_expressions().iter().filter(annotation) {
        if expression.contains("cgroup") && !with_cgroup {
            skipped("no cgroup with a limit on this machine: the panel over it is not tried");
            continue;
        }
        asked += 1;
        wait(&format!("something for {expression}"), || {
            (ask(&store.url, &format!("count({expression})")) >= 1.0).then_some(())
        });
    }
    assert!(asked > 25, "{asked}");
    // SAFETY: kill takes two integers; the run is ours and not yet reaped.
    unsafe { libc::kill(run.id() as i32, libc::SIGINT) };
    let _ = run.wait();
    assert!(
        TcpListener::bind(endpoint.address()).is_err(),
        "the endpoint outlives the run"
    );
}

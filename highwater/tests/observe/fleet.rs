//! A fleet: real stores scrape the endpoint, and what is judged through them is what the local record says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use observe::snapshot::{Event, EventKind, Role};
use record::run::Run;
use serde_json::Value;

use super::door::Door;
use super::scene::{PATIENCE, Said, Scene, program, said, wait};
use super::stage::Endpoint;
use super::store::{Running, Store, ask, first, package, prometheus, victoria};
use testkit::free_port;
use testkit::skipped;

/// The resident set of those that leak grows by so much a second.
const LEAK_KIB: &str = "400";

/// A program of its own name that leaks or stands still.
pub struct Service {
    pub folder: tempfile::TempDir,
}

impl Service {
    pub fn new() -> Service {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        for name in ["leaky", "tight"] {
            // A copy could not be executed while another test's child holds it open for writing.
            std::fs::hard_link(program("works"), folder.path().join(name)).expect("a program");
        }
        Service { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `before` stands before the command, as for another namespace.
    pub fn start(&self, name: &str, before: &[&str]) -> Running {
        let rate = if name == "leaky" { LEAK_KIB } else { "0" };
        let life = (6 * PATIENCE.as_secs()).to_string();
        let path = self.path(name).display().to_string();
        let words = [before, &[path.as_str(), "20000", rate, &life]].concat();
        Running::start(Command::new(words[0]).args(&words[1..]))
    }

    /// `--arm` for each program.
    pub fn arms(&self) -> Vec<String> {
        let arm = |name: &str| format!("{name}=exe:^{}$", self.path(name).display());
        vec!["--arm".into(), arm("leaky"), "--arm".into(), arm("tight")]
    }

    /// An endpoint that looks at both once a second.
    fn endpoint(&self, scene: &Scene) -> Endpoint {
        let arms = self.arms();
        let flags = arms.iter().map(String::as_str).chain(["--interval", "1s"]);
        Endpoint::start(scene, &flags.collect::<Vec<&str>>())
    }
}

pub fn scrape(targets: &[&str]) -> String {
    let list: Vec<String> = targets.iter().map(|t| format!("'{t}'")).collect();
    format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: fleet\n  \
         static_configs: [{{targets: [{}]}}]\n",
        list.join(",")
    )
}

/// An experiment that watches these arms for so long.
fn experiment(duration: &str, subject: &str) -> String {
    format!(
        "name = \"fleet\"\ncontrol = \"leaky\"\nduration = \"{duration}\"\ninterval = \"1s\"\nwarmup = \"2s\"\n\
         [[arms]]\nname = \"leaky\"\n[[arms]]\nname = \"tight\"\nallocator = \"glibc\"\n[subject]\n{subject}"
    )
}

pub fn remote(duration: &str, url: &str) -> String {
    let series = |arm: &str| {
        format!("[[subject.series]]\narm = \"{arm}\"\nmatch = [\"arm={arm}\", \"job=fleet\"]\n")
    };
    let store = format!("kind = \"remote\"\nprometheus = \"{url}\"\n");
    experiment(duration, &(store + &series("leaky") + &series("tight")))
}

fn local(duration: &str, service: &Service) -> String {
    let group = |arm: &str| {
        let path = service.path(arm).display().to_string();
        format!("[[subject.attach]]\narm = \"{arm}\"\nexe = \"^{path}$\"\n")
    };
    experiment(
        duration,
        &format!("kind = \"attach\"\n{}{}", group("leaky"), group("tight")),
    )
}

/// Runs it to the end.
fn judged(text: &str) -> Value {
    let scene = Scene::new();
    let said = scene.run(text, &["--json", "--quiet"]);
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    parsed(&said)
}

fn parsed(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

pub fn wait_for_samples(store: &Store, processes: f64) {
    wait("samples of every process", || {
        let count = ask(
            &store.url,
            "count(count_over_time(highwater_rss_bytes[1h]) > 2)",
        );
        (count >= processes).then_some(())
    });
}

/// What must agree: labels of arms and processes, restarts, and the allocator that was proved.
fn labels(run: &Value) -> BTreeMap<String, Vec<String>> {
    let arms = run["arms"].as_array().expect("arms").iter();
    arms.map(|arm| {
        let processes = arm["processes"].as_array().expect("processes").iter();
        let mut words: Vec<String> = processes.map(|p| p["label"].to_string()).collect();
        words.push(arm["label"].to_string());
        words.push(arm["proved"].to_string());
        words.push(arm["started_count"].to_string());
        (arm["arm"].to_string(), words)
    })
    .collect()
}

/// No hole in its snapshots.
fn is_whole(run: &Value) -> bool {
    let findings = run["findings"].as_array().expect("findings").iter();
    !findings
        .clone()
        .any(|f| f["what"].to_string().contains("no snapshot for"))
}

/// Within the two intervals and a little: both saw the same processes at other instants.
fn near(a: &Value, b: &Value, field: &str, tolerance: f64) {
    let of = |v: &Value| v[field].as_f64().unwrap_or(f64::NAN);
    let ratio = of(a) / of(b);
    assert!(
        (ratio - 1.0).abs() < tolerance,
        "{field}: {} and {}",
        of(a),
        of(b)
    );
}

#[test]
fn arms_on_other_hosts_get_the_verdict_of_the_local_record() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let service = Service::new();
    let _processes = ["leaky", "leaky", "tight", "tight"].map(|name| service.start(name, &[]));
    let scene = Scene::new();
    let endpoint = service.endpoint(&scene);
    let folder = tempfile::tempdir().expect("a folder");
    let config = scrape(&[endpoint.address()]);
    let mut stores = vec![prometheus(&bin, folder.path(), &config)];
    if let Some(bin) = package("victoria-metrics") {
        stores.push(victoria(&bin, folder.path(), &config));
    }
    stores.iter().for_each(|store| wait_for_samples(store, 4.0));
    let (here, there): (Value, Vec<Value>) = std::thread::scope(|all| {
        let here = all.spawn(|| judged(&local("24s", &service)));
        let there: Vec<_> = stores
            .iter()
            .map(|store| all.spawn(|| judged(&remote("24s", &store.url))))
            .collect();
        let there = there
            .into_iter()
            .map(|t| t.join().expect("a run"))
            .collect();
        (here.join().expect("a run"), there)
    });
    assert_eq!(here["arms"][0]["label"], "growing", "{here:#}");
    for (run, store) in there.iter().zip(&stores) {
        agree(run, &here, &store.url);
        let said = scene.highwater(&[
            "verdict",
            "--prometheus",
            &store.url,
            "--match",
            "job=fleet",
            "--arm-label",
            "arm",
            "--json",
        ]);
        let lines: Vec<Value> = said
            .out
            .lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect();
        for (arm, grows) in [("leaky", true), ("tight", false)] {
            let found = lines.iter().find(|l| l["kind"] == "arm" && l["id"] == arm);
            let label = found.map_or("", |l| l["label"].as_str().unwrap_or(""));
            assert_eq!(label == "growing", grows, "{arm}: {label}: {said:?}");
        }
    }
}

/// A process with some twenty readings, a few of them late, may be just short of the weight that a label needs: it says
/// *insufficient* where the other side decides. That is no contradiction; the arm's own label must agree.
fn forgive_undecided(a: &mut BTreeMap<String, Vec<String>>, b: &mut BTreeMap<String, Vec<String>>) {
    const UNDECIDED: &str = "\"insufficient\"";
    for (a, b) in a.values_mut().zip(b.values_mut()) {
        let processes = a.len().min(b.len()).saturating_sub(3);
        for (a, b) in a.iter_mut().zip(b).take(processes) {
            if [a.as_str(), b.as_str()].contains(&UNDECIDED) {
                b.clone_from(a);
            }
        }
    }
}

/// A run through a store, and the one that looked for itself at the same time.
fn agree(run: &Value, here: &Value, url: &str) {
    if !(is_whole(run) && is_whole(here)) {
        skipped("this machine was too busy to scrape every second: only what leaks is compared");
        assert_eq!(run["arms"][0]["label"], "growing", "{run:#}");
        return;
    }
    let (mut there, mut local) = (labels(run), labels(here));
    forgive_undecided(&mut there, &mut local);
    assert_eq!(there, local, "{url}");
    let (arms, others) = (&run["arms"], &here["arms"]);
    near(&run["pairs"][0], &here["pairs"][0], "rss_ratio", 0.1);
    near(&arms[0], &others[0], "slope_bytes_per_hour", 0.15);
    near(&arms[1], &others[1], "rss_bytes", 0.05);
    assert_eq!(run["pairs"][0]["decided"], here["pairs"][0]["decided"]);
}

/// What is known of other hosts only by what they say: a guard, and an allocator that is not the arm's.
#[test]
fn arms_on_other_hosts_are_aborted_like_any_others() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let service = Service::new();
    let _processes = ["leaky", "tight"].map(|name| service.start(name, &[]));
    let scene = Scene::new();
    let endpoint = service.endpoint(&scene);
    let folder = tempfile::tempdir().expect("a folder");
    let store = prometheus(&bin, folder.path(), &scrape(&[endpoint.address()]));
    wait_for_samples(&store, 2.0);
    let guarded = remote("1h", &store.url).replace("glibc", "jemalloc@5.3.0")
        + "[[guard]]\nrss_max = \"1MiB\"\narms = [\"leaky\"]\n";
    let scene = Scene::new();
    let said = scene.run(&guarded, &["--json", "--quiet"]);
    // An arm that runs another allocator could not be run as planned.
    assert_eq!(said.code, 4, "{said:?}");
    let run = parsed(&said);
    let why = |at: usize| run["arms"][at]["aborted"].as_str().unwrap_or("").to_owned();
    assert!(why(0).contains("guard rss_max"), "{run:#}");
    assert!(why(1).contains("should run jemalloc@5.3.0"), "{run:#}");
    assert_eq!(run["end"], "no process runs any more");
}

#[test]
fn a_crash_loop_on_another_host_stops_its_arm() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let service = Service::new();
    let mut leaky = service.start("leaky", &[]);
    let _tight = service.start("tight", &[]);
    let scene = Scene::new();
    let endpoint = service.endpoint(&scene);
    let folder = tempfile::tempdir().expect("a folder");
    let store = prometheus(&bin, folder.path(), &scrape(&[endpoint.address()]));
    wait_for_samples(&store, 2.0);
    let guarded = remote("1h", &store.url) + "[[guard]]\nrestarts_max = 1\n";
    let child = scene.start(&guarded, &["--quiet"]);
    let began = |count: usize| {
        let run = scene.record();
        let of_leaky = run.processes.iter().filter(|p| p.arm == "leaky");
        (of_leaky.count() >= count).then_some(())
    };
    wait("the first process", || began(1));
    for successor in [2, 3] {
        drop(leaky);
        leaky = service.start("leaky", &[]);
        wait("its successor", || began(successor));
    }
    let why = "guard restarts_max 1: restarted 2 times (process leaky/0)";
    wait("the guard", || said_of(&scene, why));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let said = said(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let aborted = |e: &&Event| e.kind == EventKind::Aborted;
    assert_eq!(scene.record().events.iter().filter(aborted).count(), 1);
}

/// In one run: the store is not to be reached for a while, a process is restarted meanwhile, and highwater's
/// collector is killed. Nothing of it is missing from the record.
#[test]
fn what_a_store_got_while_nobody_could_ask_is_read_afterwards() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let service = Service::new();
    let mut processes: Vec<Running> = ["leaky", "tight", "tight"]
        .map(|n| service.start(n, &[]))
        .into();
    let scene = Scene::new();
    let endpoint = service.endpoint(&scene);
    let folder = tempfile::tempdir().expect("a folder");
    let store = prometheus(&bin, folder.path(), &scrape(&[endpoint.address()]));
    wait_for_samples(&store, 3.0);
    let door = Door::before(&store);
    let child = scene.start(&remote("45s", &door.url), &["--quiet"]);
    let snapshots = || scene.record().last.0;
    wait("some snapshots", || {
        (snapshots() - scene.record().begun.0 > 5_000_000_000).then_some(())
    });
    door.close();
    wait("the outage to be said", || {
        said_of(&scene, "does not answer")
    });
    processes.remove(0);
    processes.push(service.start("leaky", &[]));
    kill_collector(&scene);
    // Until the endpoint has found the successor, which the store then knows and highwater does not.
    wait("the successor in the store", || {
        let count = ask(
            &store.url,
            "count(count_over_time(highwater_rss_bytes{arm=\"leaky\"}[1h]))",
        );
        (count >= 2.0).then_some(())
    });
    let before = snapshots();
    door.open_again();
    let ended = said(child.wait_with_output().expect("its end"));
    assert_eq!(ended.code, scene.verdict_code(), "{ended:?}");
    let run = scene.record();
    assert!(
        run.events.iter().any(|e| e.words.contains("answers again")),
        "{:#?}",
        run.events
    );
    // Scrapes fail on a machine that is too busy; what the store has, the record has.
    assert!(
        run.last.0 > before + 5_000_000_000,
        "nothing came after the outage"
    );
    has_what_the_store_has(&run, &store);
    let leaky: Vec<(u32, u32)> = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject && p.arm == "leaky")
        .map(|p| (p.replica, p.incarnation))
        .collect();
    assert_eq!(leaky, [(0, 0), (0, 1)], "{:#?}", run.events);
    assert!(run.events.iter().any(|e| e.kind == EventKind::Restarted));
    assert!(
        run.events
            .iter()
            .any(|e| e.kind == EventKind::CollectorRestarted)
    );
}

/// Of the processes that ran all the time, but for the last moment.
fn has_what_the_store_has(run: &Run, store: &Store) {
    let (begun, last) = (run.begun.0 as f64 / 1e9, run.last.0 as f64 / 1e9);
    for process in run
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject && p.arm == "tight")
    {
        let snapshots = process.samples["rss_bytes"]
            .iter()
            .map(|(time, _)| time.0 as f64 / 1e9);
        let snapshots: Vec<f64> = snapshots.collect();
        let held = readings(store, process.pid);
        let held: Vec<f64> = held
            .into_iter()
            .filter(|t| (begun..last - 1.0).contains(t))
            .collect();
        assert!(held.len() > 10, "{held:?}");
        for t in held {
            let found = snapshots
                .iter()
                .any(|snapshot| (t..t + 1.001).contains(snapshot));
            assert!(
                found,
                "{t} of pid {} is in the store and not in {snapshots:?}",
                process.pid
            );
        }
    }
}

/// Times of the samples of one process in the store.
fn readings(store: &Store, pid: i32) -> Vec<f64> {
    let query = format!("highwater_rss_bytes{{pid=\"{pid}\"}}[1h]");
    let series = first(&store.url, &query);
    let values = series["values"].as_array().into_iter().flatten();
    values.filter_map(|pair| pair[0].as_f64()).collect()
}

fn said_of(scene: &Scene, words: &str) -> Option<()> {
    std::thread::sleep(Duration::from_millis(200));
    let run = scene.record();
    run.events
        .iter()
        .any(|e| e.words.contains(words))
        .then_some(())
}

fn kill_collector(scene: &Scene) {
    let run = scene.record();
    let of_collector = |p: &&record::run::Process| p.command == ["collector"] && p.ended.is_none();
    let pid = run
        .processes
        .iter()
        .find(of_collector)
        .expect("a collector")
        .pid;
    // SAFETY: kill takes two integers; the collector is a process of this test.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_run_that_cannot_be_says_why_before_it_begins() {
    let Some(bin) = package("prometheus") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let store = prometheus(&bin, folder.path(), "scrape_configs: []\n");
    let free = format!("http://127.0.0.1:{}", free_port());
    for (text, code, part) in [
        (
            remote("9s", &store.url),
            4,
            "is `highwater observe` scraped?",
        ),
        (remote("9s", &free), 4, "nothing listens"),
        (
            remote("9s", &store.url).replace("\"arm=leaky\"", "\"a b=c\""),
            2,
            "no name of a label",
        ),
        (
            remote("9s", &store.url).replace("kind =", "headers = \"none.txt\"\nkind ="),
            4,
            "none.txt",
        ),
    ] {
        let scene = Scene::new();
        let said = scene.run(&text, &[]);
        assert_eq!(said.code, code, "{part}: {said:?}");
        assert!(said.err.contains(part), "{part}: {}", said.err);
        assert!(
            !scene.folder.path().join("runs").exists(),
            "{part}: a run folder was made"
        );
    }
}

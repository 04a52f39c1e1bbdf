//! Guard rails: an arm over its limit is stopped at once and taken back where that is allowed, the others go on, and
//! the report says when and why.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use observe::snapshot::{EventKind, Role};
use record::run::Run;

use super::scene::{Said, Scene, lives, program};

/// A process that somebody else started; ended with the test.
struct Stranger(Child);

impl Stranger {
    fn start(name: &str) -> Stranger {
        let mut command = Command::new(program(name));
        let child = command.stdout(Stdio::null()).spawn();
        Stranger(child.expect("it starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attached(a: u32, b: u32, subject: &str, more: &str) -> String {
    format!(
        "name = \"rails\"\nhypothesis = \"\"\ncontrol = \"a\"\nduration = \"6s\"\ninterval = \"200ms\"\nwarmup = \"0s\"\n\
         [subject]\nkind = \"attach\"\n{subject}\n[[subject.attach]]\narm = \"a\"\npids = [{a}]\n\
         [[subject.attach]]\narm = \"b\"\npids = [{b}]\n[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\n{more}"
    )
}

fn words(run: &Run, kind: EventKind) -> Vec<String> {
    let events = run.events.iter().filter(|e| e.kind == kind);
    events.map(|e| e.words.clone()).collect()
}

/// Arm b was stopped for this reason, a was looked at to the end, and everything says so.
fn b_is_stopped(scene: &Scene, said: &Said, why: &str) -> Run {
    assert_eq!(said.code, scene.verdict_code(), "{said:?}");
    let run = scene.record();
    let aborted = words(&run, EventKind::Aborted);
    assert_eq!(aborted.len(), 1, "{aborted:?}");
    assert!(
        aborted[0].contains("arm b aborted") && aborted[0].contains(why),
        "{aborted:?}"
    );
    assert!(said.out.contains(why), "the report says why: {}", said.out);
    let at = run
        .events
        .iter()
        .find(|e| e.kind == EventKind::Aborted)
        .expect("it")
        .time;
    let last = |arm: &str| {
        let own = run
            .processes
            .iter()
            .filter(|p| p.role == Role::Subject && p.arm == arm);
        let times = own
            .filter_map(|p| p.samples.get("rss_bytes")?.last())
            .map(|(t, _)| *t);
        times.max().expect("readings")
    };
    assert!(
        last("b").0 <= at.0 + 1_000_000_000,
        "b is looked at no more"
    );
    assert!(last("a") > at && last("a") >= last("b"), "a goes on");
    run
}

#[test]
fn rss_over_its_limit_stops_an_observed_arm_and_touches_nothing() {
    let scene = Scene::new();
    let (mut a, mut b) = (Stranger::start("flat"), Stranger::start("grows"));
    let mark = scene.folder.path().join("touched");
    let more = format!(
        "[[guard]]\nrss_max = \"16MiB\"\n[revert]\nwords = \"put it back\"\ncommands = [[\"touch\", {:?}]]\n",
        mark.display().to_string()
    );
    let said = scene.run(&attached(a.pid(), b.pid(), "", &more), &[]);
    let run = b_is_stopped(&scene, &said, "guard rss_max 16 MiB");
    assert!(a.runs() && b.runs(), "nobody is touched");
    assert!(!mark.exists() && words(&run, EventKind::Reverted).is_empty());
    assert!(words(&run, EventKind::Aborted)[0].contains("this run only observes"));
}

#[test]
fn a_managed_arm_is_taken_back_at_once() {
    let scene = Scene::new();
    let (a, b) = (Stranger::start("flat"), Stranger::start("grows"));
    let more = "[[guard]]\nrss_max = \"16MiB\"\n[revert]\ncommands = [[\"sh\", \"-c\", \"exit 7\"], \
                [\"sh\", \"-c\", \"echo {arm} {pid} >> undone\"]]\n";
    let said = scene.run(&attached(a.pid(), b.pid(), "managed = true", more), &[]);
    let run = b_is_stopped(&scene, &said, "guard rss_max 16 MiB");
    let undone = std::fs::read_to_string(scene.folder.path().join("undone")).expect("it ran");
    assert_eq!(undone, format!("b {}\n", b.pid()));
    let done = words(&run, EventKind::Reverted);
    assert_eq!(done.len(), 1, "{done:?}");
    let failed = words(&run, EventKind::Degraded);
    assert!(
        failed
            .iter()
            .any(|w| w.contains("not reverted") && w.contains("7")),
        "{failed:?}"
    );
}

#[test]
fn a_service_over_its_limit_is_ended_while_the_others_go_on() {
    let scene = Scene::new();
    let text = format!(
        "name = \"rails\"\nhypothesis = \"\"\ncontrol = \"a\"\nreplicas = 1\nduration = \"6s\"\ninterval = \"200ms\"\n\
         warmup = \"0s\"\n[subject]\ncommand = [{:?}]\n[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\ncommand = [{:?}]\n\
         [[guard]]\nrss_max = \"16MiB\"\n",
        program("flat"),
        program("grows")
    );
    let said = scene.run(&text, &[]);
    let run = b_is_stopped(&scene, &said, "guard rss_max 16 MiB");
    let b = run
        .processes
        .iter()
        .find(|p| p.role == Role::Subject && p.arm == "b")
        .expect("b");
    assert!(
        !lives(b.pid, b.start_ticks) && b.ended < Some(run.last),
        "ended, and not at the end"
    );
}

#[test]
fn a_crash_loop_of_a_service_stops_its_arm() {
    let scene = Scene::new();
    let text = format!(
        "name = \"rails\"\nhypothesis = \"\"\ncontrol = \"a\"\nreplicas = 1\nduration = \"9s\"\ninterval = \"200ms\"\n\
         warmup = \"0s\"\n[subject]\ncommand = [{:?}]\nrestart = \"on-failure\"\n[[arms]]\nname = \"a\"\n\
         [[arms]]\nname = \"b\"\ncommand = [\"sh\", \"-c\", \"sleep 0.3; exit 3\"]\n\
         [[guard]]\nrestarts_max = 1\nwithin = \"1m\"\n[[verify]]\nrestarts_max = 1\n",
        program("flat")
    );
    let said = scene.run(&text, &[]);
    let run = b_is_stopped(&scene, &said, "restarted 2 times within 1 min");
    assert!(
        said.out.contains("FAIL") && said.out.contains("restarts_max 1"),
        "{}",
        said.out
    );
    let of_b = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject && p.arm == "b");
    assert_eq!(of_b.count(), 2, "two starts, and no third");
}

#[test]
fn a_unit_in_a_crash_loop_is_counted_by_systemd_too() {
    let scene = Scene::new();
    let (a, b) = (Stranger::start("flat"), Stranger::start("flat"));
    let bin = scene.folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    // Each question finds the unit restarted twice more, with the same process by chance of the moment.
    let script = format!(
        "#!/bin/sh\necho x >> asked\nn=$(wc -l < asked)\nfor u in a b; do\n[ $u = a ] && pid={} r=0 || {{ pid={}; r=$((2 * n)); }}\n\
         printf 'Id=%s.service\\nLoadState=loaded\\nActiveState=active\\nSubState=running\\nMainPID=%s\\nNRestarts=%s\\n\\n' $u $pid $r\ndone\n",
        a.pid(),
        b.pid()
    );
    std::fs::write(bin.join("systemctl"), script).expect("the script");
    std::fs::set_permissions(bin.join("systemctl"), PermissionsExt::from_mode(0o755))
        .expect("its mode");
    scene.experiment(
        "name = \"rails\"\nhypothesis = \"\"\ncontrol = \"a\"\nduration = \"12s\"\ninterval = \"200ms\"\nwarmup = \"0s\"\n\
         [subject]\nkind = \"attach\"\n[[subject.attach]]\ngroups = \"g.csv\"\n[[arms]]\nname = \"a\"\n\
         [[arms]]\nname = \"b\"\n[[guard]]\nrestarts_max = 3\n",
    );
    std::fs::write(scene.folder.path().join("g.csv"), "unit,arm\na,a\nb,b\n").expect("groups");
    let old = std::env::var("PATH").unwrap_or_default();
    let mut command = scene.command(&["run", "experiment.toml"]);
    command.env("PATH", format!("{}:{old}", bin.display()));
    let said = super::scene::said(command.output().expect("highwater starts"));
    let run = b_is_stopped(&scene, &said, "guard restarts_max 3: restarted 4 times");
    let seen = words(&run, EventKind::Restarted);
    assert!(
        seen.iter()
            .all(|w| w.contains("systemd restarted it between two searches")),
        "{seen:?}"
    );
}

#[test]
fn p99_over_its_limit_stops_an_arm_whose_service_exports_latencies() {
    let scene = Scene::new();
    let (a, b) = (Stranger::start("flat"), Stranger::start("flat"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || serve_latencies(&listener));
    let subject = format!("metrics = \"http://127.0.0.1:{port}/{{arm}}\"");
    let more = "[[guard]]\np99_max = \"50ms\"\n";
    let said = scene.run(&attached(a.pid(), b.pid(), &subject, more), &[]);
    b_is_stopped(&scene, &said, "guard p99_max 50 ms");
}

/// A histogram with 1000 requests more at each question: of 1 ms for /a, of 200 ms for /b.
fn serve_latencies(listener: &TcpListener) {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).unwrap_or(0);
        let is_b = String::from_utf8_lossy(&buffer[..n]).starts_with("GET /b");
        let count = 1000 * (1 + ASKED.fetch_add(1, Ordering::Relaxed));
        let fast = if is_b { 0 } else { count };
        let body = format!(
            "# TYPE request_seconds histogram\nrequest_seconds_bucket{{le=\"0.001\"}} {fast}\n\
             request_seconds_bucket{{le=\"0.2\"}} {count}\nrequest_seconds_bucket{{le=\"+Inf\"}} {count}\n\
             request_seconds_count {count}\nrequest_seconds_sum 1\n"
        );
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }
}

//! Arms of processes that already run: by unit, by a file of groups, by variables; members that come, go, restart
//! and move while the run goes on. Never is one of them touched.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use observe::snapshot::{EventKind, Role};
use record::run::{Process, Run};
use series::arms::{arm_series, member_id};
use verdict::Rules;
use verdict::run::judge::judge_run;

use super::scene::{Said, Scene, program, said, wait};

/// Processes that somebody else started, by name; ended with the test.
struct Fleet {
    scene: Scene,
    children: BTreeMap<String, Child>,
}

impl Fleet {
    fn new() -> Fleet {
        Fleet {
            scene: Scene::new(),
            children: BTreeMap::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        // As an editor does: whoever reads sees the old file or the new one.
        let new = self.path("new.tmp");
        std::fs::write(&new, text).expect("the file");
        std::fs::rename(new, self.path(name)).expect("the file");
    }

    /// Starts a process of this name, or another one in the place of the one before.
    fn start(&mut self, name: &str, kind: &str) -> i32 {
        self.stop(name);
        let tag = format!("{}-{name}", self.tag());
        let mut command = Command::new(program(kind));
        command
            .arg(&tag)
            .env("HIGHWATER_TEST_ROLE", format!("{}-{kind}", self.tag()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        let pid = child.id() as i32;
        wait("it to be executed", || {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains(&tag).then_some(())
        });
        self.children.insert(name.to_owned(), child);
        pid
    }

    fn stop(&mut self, name: &str) {
        if let Some(mut child) = self.children.remove(name) {
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
        }
    }

    /// What no other test's processes have in their arguments.
    fn tag(&self) -> String {
        let name = self.scene.folder.path().file_name().expect("a name");
        name.to_string_lossy().trim_start_matches('.').to_owned()
    }

    /// A systemctl that answers with the file `units`, first on the PATH.
    fn fake_systemctl(&self) {
        let bin = self.path("bin");
        std::fs::create_dir(&bin).expect("a folder");
        let file = self.path("units");
        let text = format!("#!/bin/sh\ncat '{}'\n", file.display());
        let path = bin.join("systemctl");
        std::fs::write(&path, text).expect("the script");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its mode");
    }

    /// Units with their processes and how often systemd restarted them; pid 0 does not run.
    fn units(&self, units: &[(&str, i32, u32)]) {
        let block = |(name, pid, restarts): &(&str, i32, u32)| {
            let state = if *pid > 0 { "active" } else { "failed" };
            format!(
                "MainPID={pid}\nNRestarts={restarts}\nId={name}\nLoadState=loaded\nActiveState={state}\nSubState=x\n"
            )
        };
        let blocks: Vec<String> = units.iter().map(block).collect();
        self.write("units", &blocks.join("\n"));
    }

    fn begin(&self, experiment: &str) -> Child {
        self.scene.experiment(experiment);
        let old = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{old}", self.path("bin").display());
        let mut command = self.scene.command(&["run", "experiment.toml"]);
        command
            .env("PATH", path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("highwater starts")
    }

    /// Waits until a process was looked at a few times.
    fn snapshot_at(&self, pid: i32) {
        wait(&format!("looks at {pid}"), || {
            let run = self.scene.record();
            let own = run.processes.iter().rev().find(|p| p.pid == pid)?;
            (own.samples.get("rss_bytes")?.len() >= 3).then_some(())
        });
    }

    /// Waits until the record has an event of this kind whose words have these.
    fn see(&self, kind: EventKind, words: &str) {
        wait(&format!("{kind:?} {words}"), || {
            let run = self.scene.record();
            let has = run
                .events
                .iter()
                .any(|e| e.kind == kind && e.words.contains(words));
            has.then_some(())
        });
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let names: Vec<String> = self.children.keys().cloned().collect();
        names.iter().for_each(|name| self.stop(name));
    }
}

/// Ends a run in order, as Ctrl-C does, and takes what it said.
fn end(child: Child) -> Said {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    said(child.wait_with_output().expect("it ends"))
}

/// What the arms of some seconds are worth, decided or not, is not what these tests ask.
fn ended(run: Child) {
    let said = end(run);
    assert!(matches!(said.code, 0 | 3), "{said:?}");
}

fn plan(attach: &str, more: &str) -> String {
    format!(
        "name = \"groups\"\nhypothesis = \"\"\ncontrol = \"a\"\nduration = \"80s\"\ninterval = \"200ms\"\n\
         warmup = \"0s\"\n{more}\n[subject]\nkind = \"attach\"\n{attach}\n[[arms]]\nname = \"a\"\n[[arms]]\nname = \"b\"\n"
    )
}

/// Every stretch of a member: its arm, and the pid.
fn stretches(run: &Run, name: &str) -> Vec<(String, i32)> {
    let of_name = |p: &&Process| p.role == Role::Subject && member_id(p).ends_with(name);
    let rows = run.processes.iter().filter(of_name);
    rows.map(|process| (process.arm.clone(), process.pid))
        .collect()
}

#[test]
fn a_file_of_groups_moves_members_and_the_record_knows_since_when() {
    let mut fleet = Fleet::new();
    let old = fleet.start("r1", "flat");
    let [r2, r3] = ["r2", "r3"].map(|name| fleet.start(name, "flat"));
    let tag = fleet.tag();
    let table = |rows: &str| format!("nickname,group\nr1,a\n{rows}");
    fleet.write("g.csv", &table("r2,a\nr3,b\n"));
    let attach = format!("[[subject.attach]]\nargs = '{tag}-(\\S+)'\ngroups = \"g.csv\"");
    let run = fleet.begin(&plan(&attach, ""));
    fleet.see(EventKind::Started, "r3 is watched");
    fleet.snapshot_at(old);
    let new = fleet.start("r1", "flat");
    fleet.see(EventKind::Started, &format!("pid {new}"));
    fleet.snapshot_at(new);
    fleet.write("g.csv", &table("r2,b\nr3,b\n"));
    fleet.see(EventKind::Started, "r2 is watched: pid");
    fleet.see(EventKind::Moved, "r2 (pid");
    fleet.write("g.csv", "nickname,group\nr1,a\nr2,zebra\n");
    fleet.see(EventKind::Degraded, "no arm is called `zebra`");
    fleet.write("g.csv", &table("r2,b\nr3,-\n"));
    fleet.see(EventKind::Left, "r3 (pid");
    let r4 = fleet.start("r4", "flat");
    fleet.write("g.csv", &table("r2,b\nr4,b\n"));
    fleet.see(EventKind::Started, "r4 is watched");
    fleet.snapshot_at(r4);
    ended(run);
    let run = fleet.scene.record();
    let arms = |name: &str| stretches(&run, name);
    assert_eq!(arms("r1"), [("a".into(), old), ("a".into(), new)]);
    assert_eq!(arms("r2"), [("a".into(), r2), ("b".into(), r2)]);
    assert_eq!(
        (arms("r3"), arms("r4")),
        (vec![("b".into(), r3)], vec![("b".into(), r4)])
    );
    the_snapshot_knows(&run);
    // r2 came along without a restart: it counts for a until then, and for b never.
    assert_eq!(counted(&run, 0), ["a/r1", "a/r2"]);
    assert_eq!(counted(&run, 1), ["b/r3", "b/r4"]);
    let verdict = judge_run(&run, &Rules::default());
    let found: Vec<&str> = verdict.findings.iter().map(|f| f.what.as_str()).collect();
    let says = |words: &str| {
        assert!(
            found.iter().any(|what| what.contains(words)),
            "{words}: {found:#?}"
        )
    };
    says("the members of a changed: r2 went to b");
    says("r3 left it");
    says("1 of 2 processes of a restarted");
    assert_eq!(verdict.arms[0].restarted, 1);
    for (name, child) in &mut fleet.children {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "{name} was ended"
        );
    }
}

/// Whose readings count for an arm.
fn counted(run: &Run, arm: usize) -> Vec<String> {
    let series = &arm_series(run, "rss_bytes", Duration::ZERO)[arm];
    let replicas = series.replicas.iter();
    replicas.map(|replica| replica.id.clone()).collect()
}

/// At no instant is one process in two arms, and each stretch has readings of its own.
fn the_snapshot_knows(run: &Run) {
    let mut seen: BTreeMap<(i32, u64, i64), &str> = BTreeMap::new();
    for process in run.processes.iter().filter(|p| p.role == Role::Subject) {
        let readings = process
            .samples
            .get("rss_bytes")
            .map_or(&[][..], Vec::as_slice);
        for (time, _) in readings {
            let key = (process.pid, process.start_ticks, time.0);
            let other = seen.insert(key, &process.arm);
            assert!(
                other.is_none(),
                "{} is in {other:?} and in {} at once",
                process.pid,
                process.arm
            );
        }
    }
}

#[test]
fn units_are_found_again_after_a_restart_and_new_instances_join() {
    let mut fleet = Fleet::new();
    fleet.fake_systemctl();
    let [a, b] = ["a", "b"].map(|name| fleet.start(name, "flat"));
    fleet.units(&[
        ("x@a.service", a, 0),
        ("x@b.service", b, 0),
        ("x@down.service", 0, 0),
    ]);
    let attach = "[[subject.attach]]\nunit = \"x@*\"\ngroups = \"g.csv\"";
    fleet.write("g.csv", "unit,arm\nx@*,a\nx@b.service,b\n");
    let run = fleet.begin(&plan(attach, ""));
    fleet.see(EventKind::Started, "x@b.service is watched");
    let again = fleet.start("a", "flat");
    let new = fleet.start("c", "flat");
    fleet.units(&[
        ("x@a.service", again, 1),
        ("x@b.service", b, 0),
        ("x@c.service", new, 0),
    ]);
    fleet.see(EventKind::Restarted, &format!("pid {again}"));
    fleet.see(EventKind::Started, "x@c.service is watched");
    // The findings that name units need a few readings of each.
    for pid in [again, b, new] {
        fleet.snapshot_at(pid);
    }
    let said = end(run);
    assert!(
        said.err.contains("x@down.service does not run: failed"),
        "{}",
        said.err
    );
    let run = fleet.scene.record();
    assert_eq!(
        stretches(&run, "x@a.service"),
        [("a".into(), a), ("a".into(), again)]
    );
    assert_eq!(stretches(&run, "x@b.service"), [("b".into(), b)]);
    assert_eq!(stretches(&run, "x@c.service"), [("a".into(), new)]);
    let units = run
        .processes
        .iter()
        .filter(|p| p.facts.contains_key("member.unit"));
    assert_eq!(units.count(), 4);
    // Which of them is in a finding depends on how many readings the short run got of each.
    assert!(
        said.out.contains("x@"),
        "the report names units: {}",
        said.out
    );
}

#[test]
fn variables_and_executables_tell_arms_apart() {
    let mut fleet = Fleet::new();
    let (flat, grows) = (fleet.start("1", "flat"), fleet.start("2", "grows"));
    let tag = fleet.tag();
    let group = |arm: &str, value: &str| {
        format!(
            "[[subject.attach]]\narm = \"{arm}\"\nenviron = {{ HIGHWATER_TEST_ROLE = \"{value}\" }}\n"
        )
    };
    let attach = group("a", &format!("{tag}-flat")) + &group("b", &format!("{tag}-g?ow*"));
    let text = plan(&attach, "").replace("80s", "2s");
    fleet.scene.run(&text, &[]);
    let run = fleet.scene.record();
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    let found: Vec<(&str, i32)> = subjects.map(|p| (p.arm.as_str(), p.pid)).collect();
    assert_eq!(found, [("a", flat), ("b", grows)]);
}

#[test]
fn what_is_wrong_with_groups_is_said_before_anything_begins() {
    let fleet = Fleet::new();
    fleet.fake_systemctl();
    let refused = |attach: &str, words: &str| {
        let said = said(
            fleet
                .begin(&plan(attach, ""))
                .wait_with_output()
                .expect("it ends"),
        );
        assert!([2, 4].contains(&said.code), "{said:?}");
        assert!(said.err.contains(words), "{words}: {}", said.err);
    };
    refused(
        "[[subject.attach]]\nunit = \"x@*\"",
        "does not say which `arm`",
    );
    refused(
        "[[subject.attach]]\narm = \"a\"\ngroups = \"g.csv\"",
        "exclude each other",
    );
    refused(
        "[[subject.attach]]\nunit = \"x@*\"\ngroups = \"none.csv\"",
        "none.csv cannot be read",
    );
    fleet.write("g.csv", "unit,arm\nx@1,a\nx@2,zebra\n");
    refused(
        "[[subject.attach]]\ngroups = \"g.csv\"",
        "line 3: no arm is called `zebra`",
    );
    fleet.write("g.csv", "nickname,arm\nr1,a\nr2,b\n");
    refused(
        "[[subject.attach]]\nexe = \"x\"\ngroups = \"g.csv\"",
        "what a process is called",
    );
    fleet.write(
        "units",
        "Id=no@1.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nMainPID=0\n",
    );
    let both = "[[subject.attach]]\narm = \"a\"\nunit = \"no@1\"\n[[subject.attach]]\narm = \"b\"\nunit = \"no@1\"";
    refused(both, "systemd knows no unit no@1.service");
}

#[test]
fn a_run_that_is_taken_up_again_goes_on_with_its_members() {
    let mut fleet = Fleet::new();
    let [r1, r2] = ["r1", "r2"].map(|name| fleet.start(name, "flat"));
    let tag = fleet.tag();
    fleet.write("g.csv", "nickname,group\nr1,a\nr2,b\n");
    let attach = format!("[[subject.attach]]\nargs = '{tag}-(\\S+)'\ngroups = \"g.csv\"");
    let mut run = fleet.begin(&plan(&attach, ""));
    fleet.see(EventKind::Ready, "r2 is ready");
    run.kill().expect("it is ours");
    run.wait().expect("it ends");
    let again = fleet.start("r1", "flat");
    let folder = fleet.scene.run_folder();
    let name = folder.path().display().to_string();
    let mut command = fleet.scene.command(&["run", "--resume", &name]);
    let run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("highwater starts");
    fleet.see(EventKind::Started, &format!("pid {again}"));
    fleet.see(EventKind::Resumed, "r2 is watched again");
    ended(run);
    let run = fleet.scene.record();
    assert_eq!(
        stretches(&run, "r1"),
        [("a".into(), r1), ("a".into(), again)]
    );
    assert_eq!(stretches(&run, "r2"), [("b".into(), r2)]);
}

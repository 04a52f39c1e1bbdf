//! Plans for machines that are made up.

use super::*;
use crate::health::Health;
use crate::plan::{Source, Timing};

const LIBRARY: &str = "/usr/local/lib/highwater/je-0123456789ab/libje.so";

fn request(patterns: &[&str]) -> Request {
    let source = Source {
        from: "/home/x/libje.so".into(),
        to: LIBRARY.into(),
        sha256: "01".repeat(32),
        build_id: None,
    };
    Request {
        arm: "je".into(),
        run: "2026-11-21-tor-1".into(),
        patterns: patterns.iter().map(|p| (*p).to_owned()).collect(),
        libraries: vec![source],
        environment: BTreeMap::from([("MALLOC_CONF".to_owned(), "narenas:1".to_owned())]),
        system: false,
        health: Health::None,
        timing: Timing {
            health_s: 1.0,
            settle_s: 0.0,
            pause_s: 0.0,
        },
        prediction: None,
        ledger: None,
        told: vec!["Arm je.".into()],
    }
}

fn running(name: &str, pid: i32) -> Candidate {
    Candidate {
        unit: Unit {
            name: name.into(),
            load: "loaded".into(),
            active: "active".into(),
            main_pid: pid,
            ..Unit::default()
        },
        start_ticks: 7,
        drop_ins: Vec::new(),
        environment_files: Vec::new(),
        misfit: None,
    }
}

fn found(candidates: Vec<Candidate>) -> Found {
    let folders = [
        "/",
        "/etc",
        "/etc/systemd",
        "/etc/systemd/system",
        "/usr",
        "/usr/local",
        "/usr/local/lib",
    ];
    Found {
        candidates,
        folders: folders.iter().map(PathBuf::from).collect(),
        ..Found::default()
    }
}

fn kept(text: &str) -> Kept {
    use base64::Engine;
    Kept {
        content: base64::engine::general_purpose::STANDARD.encode(text),
        mode: 0o644,
        uid: 0,
        gid: 0,
        modified_s: 0,
        modified_ns: 0,
    }
}

/// The words of the one problem.
fn problem(request: &Request, found: &Found) -> String {
    let proposal = propose(request, found, "1");
    assert_eq!(proposal.problems.len(), 1, "{:#?}", proposal.problems);
    proposal.problems[0].clone()
}

#[test]
fn every_running_instance_gets_a_file_of_its_own() {
    let mut stopped = running("tor@c.service", 0);
    stopped.unit.active = "inactive".into();
    let mut masked = running("tor@d.service", 0);
    masked.unit.load = "masked".into();
    let candidates = vec![
        running("tor@a.service", 1),
        running("tor@b.service", 2),
        stopped,
        masked,
    ];
    let proposal = propose(&request(&["tor@*.service"]), &found(candidates), "1");
    assert!(proposal.problems.is_empty(), "{:?}", proposal.problems);
    let units: Vec<&str> = proposal
        .plan
        .instances
        .iter()
        .map(|i| i.unit.as_str())
        .collect();
    assert_eq!(units, ["tor@a.service", "tor@b.service"]);
    let paths: Vec<String> = proposal
        .plan
        .files
        .iter()
        .map(|f| f.path.display().to_string())
        .collect();
    let of = |unit: &str| format!("/etc/systemd/system/{unit}.d/highwater.conf");
    assert_eq!(
        paths,
        [LIBRARY.to_owned(), of("tor@a.service"), of("tor@b.service")]
    );
    let folders: Vec<String> = proposal
        .plan
        .folders
        .iter()
        .map(|f| f.display().to_string())
        .collect();
    assert_eq!(
        folders[..2],
        [
            "/usr/local/lib/highwater",
            "/usr/local/lib/highwater/je-0123456789ab"
        ]
    );
    assert_eq!(folders.len(), 4);
    let expected = [("MALLOC_CONF", "narenas:1"), ("LD_PRELOAD", LIBRARY)];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(
        proposal.plan.instances[0].environment,
        BTreeMap::from(expected)
    );
    let left: Vec<&String> = proposal
        .notes
        .iter()
        .filter(|note| note.starts_with("left out"))
        .collect();
    assert_eq!(left.len(), 2, "{:?}", proposal.notes);
}

#[test]
fn a_template_gets_one_file_when_its_instances_agree() {
    let candidates = vec![running("tor@a.service", 1), running("tor@b.service", 2)];
    let proposal = propose(&request(&["tor@.service"]), &found(candidates.clone()), "1");
    assert!(proposal.problems.is_empty(), "{:?}", proposal.problems);
    assert_eq!(
        (proposal.plan.files.len(), proposal.plan.instances.len()),
        (2, 2)
    );
    let words = problem(
        &request(&["tor@a.service", "tor@.service"]),
        &found(candidates.clone()),
    );
    assert!(words.contains("its template tor@.service too"), "{words}");
    let both = propose(
        &request(&["tor@a.service", "tor@*.service"]),
        &found(candidates.clone()),
        "1",
    );
    assert!(
        both.problems.is_empty() && both.plan.instances.len() == 2,
        "{both:?}"
    );
    let mut differ = candidates;
    differ[1].unit.environment = vec![(PRELOAD.into(), "/x/libother.so".into())];
    let words = problem(&request(&["tor@.service"]), &found(differ));
    assert!(
        words.contains("adopt by instance, with 'tor@*.service'"),
        "{words}"
    );
}

#[test]
fn what_is_named_must_run() {
    let with = |change: fn(&mut Unit)| {
        let mut candidate = running("relay.service", 1);
        change(&mut candidate.unit);
        problem(&request(&["relay.service"]), &found(vec![candidate]))
    };
    assert!(with(|u| u.load = "not-found".into()).contains("there is no unit relay.service"));
    assert!(with(|u| u.load = "masked".into()).contains("is masked"));
    assert!(with(|u| u.active = "failed".into()).contains("does not run (failed)"));
    assert!(with(|u| u.main_pid = 0).contains("has no main process"));
    assert!(with(|u| u.load = "bad-setting".into()).contains("not loaded well"));
    assert!(with(|u| u.needs_reload = true).contains("was changed on disk"));
    assert!(with(|u| u.other_root = Some("/srv".into())).contains("file system of its own (/srv)"));
    assert!(with(|u| u.unset = vec![PRELOAD.into()]).contains("UnsetEnvironment=LD_PRELOAD"));
    let mut typo = found(vec![running("realy.service", 0)]);
    typo.candidates[0].unit.load = "not-found".into();
    typo.known = vec!["cron.service".into(), "relay.service".into()];
    let words = problem(&request(&["realy.service"]), &typo);
    assert!(words.ends_with("did you mean relay.service?"), "{words}");
    let none = problem(&request(&["tor@*.service"]), &found(Vec::new()));
    assert!(
        none.contains("no unit that matches tor@*.service runs"),
        "{none}"
    );
}

#[test]
fn a_file_that_is_not_ours_is_never_overwritten() {
    let path = PathBuf::from("/etc/systemd/system/relay.service.d/highwater.conf");
    let mut machine = found(vec![running("relay.service", 1)]);
    machine.folders.insert(path.parent().unwrap().to_path_buf());
    machine.files.insert(path.clone(), Ok(kept("[Service]\n")));
    machine.digests.insert(path.clone(), "aa".into());
    let words = problem(&request(&["relay"]), &machine);
    assert!(
        words.contains("no unit"),
        "names are completed before: {words}"
    );
    let words = problem(&request(&["relay.service"]), &machine);
    assert!(
        words.contains("was not written by a rollout that is known here"),
        "{words}"
    );
    // Even the head of ours does not make it ours: the digest does.
    machine.ours.insert(path.clone(), "bb".into());
    let words = problem(&request(&["relay.service"]), &machine);
    assert!(words.contains("edited since"), "{words}");
    machine.ours.insert(path.clone(), "aa".into());
    let proposal = propose(&request(&["relay.service"]), &machine, "2");
    assert!(proposal.problems.is_empty(), "{:?}", proposal.problems);
    assert_eq!(proposal.plan.files[1].before, Some(kept("[Service]\n")));
    machine.files.insert(path, Err("it is a link".into()));
    let words = problem(&request(&["relay.service"]), &machine);
    assert!(words.contains("in the way: it is a link"), "{words}");
}

#[test]
fn what_would_win_over_the_drop_in_is_found() {
    let drop_in = |name: &str, text: &str| {
        (
            PathBuf::from(format!("/etc/systemd/system/relay.service.d/{name}")),
            text.to_owned(),
        )
    };
    let mut candidate = running("relay.service", 1);
    candidate.drop_ins = vec![drop_in(
        "override.conf",
        "[Service]\nEnvironment=MALLOC_CONF=x\n",
    )];
    let late = propose(
        &request(&["relay.service"]),
        &found(vec![candidate.clone()]),
        "1",
    );
    assert!(late.problems.is_empty(), "{:?}", late.problems);
    assert!(late.plan.files[1].path.ends_with("zz-highwater.conf"));
    candidate
        .drop_ins
        .push(drop_in("zzz.conf", "Environment=LD_PRELOAD=/x.so"));
    let words = problem(
        &request(&["relay.service"]),
        &found(vec![candidate.clone()]),
    );
    assert!(
        words.contains("zzz.conf sets the same variables"),
        "{words}"
    );
    candidate.drop_ins.clear();
    candidate.environment_files = vec![("/etc/default/relay".into(), "MALLOC_CONF=y\n".into())];
    let words = problem(
        &request(&["relay.service"]),
        &found(vec![candidate.clone()]),
    );
    assert!(
        words.contains("/etc/default/relay sets MALLOC_CONF"),
        "{words}"
    );
    candidate.environment_files.clear();
    // The template has a file of that name: the instance's would hide it.
    candidate.drop_ins = vec![(
        "/etc/systemd/system/relay@.service.d/highwater.conf".into(),
        String::new(),
    )];
    let words = problem(&request(&["relay.service"]), &found(vec![candidate]));
    assert!(
        words.contains("of two with one name systemd reads one"),
        "{words}"
    );
}

#[test]
fn a_library_that_others_put_there_stays_when_we_go() {
    let mut machine = found(vec![running("relay.service", 1)]);
    let mine = request(&["relay.service"]);
    machine
        .digests
        .insert(LIBRARY.into(), mine.libraries[0].sha256.clone());
    let proposal = propose(&mine, &machine, "1");
    assert!(
        proposal.problems.is_empty() && proposal.plan.files.len() == 1,
        "{proposal:?}"
    );
    machine.digests.insert(LIBRARY.into(), "other".into());
    assert!(problem(&mine, &machine).contains("is there with other content"));
    // Ours, of a rollout that is in force: whoever goes last takes it away.
    machine
        .digests
        .insert(LIBRARY.into(), mine.libraries[0].sha256.clone());
    machine
        .ours
        .insert(LIBRARY.into(), mine.libraries[0].sha256.clone());
    assert_eq!(propose(&mine, &machine, "1").plan.files.len(), 2);
    // The drop-in too: nothing is left to do.
    let again = propose(&mine, &machine, "1").plan.files[1].clone();
    machine.files.insert(again.path.clone(), Ok(kept("x")));
    machine
        .digests
        .insert(again.path.clone(), again.sha256.clone());
    machine.ours.insert(again.path, again.sha256);
    assert!(problem(&mine, &machine).contains("is adopted here already"));
}

#[test]
fn an_arm_that_changes_nothing_is_refused() {
    let mut nothing = request(&["relay.service"]);
    nothing.libraries.clear();
    nothing.environment.clear();
    let words = problem(&nothing, &found(vec![running("relay.service", 1)]));
    assert!(words.contains("there is nothing to adopt"), "{words}");
    // The system's allocator where another one is preloaded: that one goes.
    let mut other = running("relay.service", 1);
    other.unit.environment = vec![(PRELOAD.into(), "/x/libmi.so".into())];
    let mut machine = found(vec![other]);
    machine.allocators.insert("/x/libmi.so".into());
    let proposal = propose(&nothing, &machine, "1");
    assert!(proposal.problems.is_empty(), "{:?}", proposal.problems);
    assert_eq!(proposal.plan.instances[0].environment[PRELOAD], "");
}

#[test]
fn a_drop_in_with_a_secret_is_roots_alone() {
    let mut secret = request(&["relay.service"]);
    let modes = |request: &Request| -> Vec<u32> {
        let machine = found(vec![running("relay.service", 1)]);
        let plan = propose(request, &machine, "1").plan;
        plan.files.iter().map(|file| file.mode).collect()
    };
    assert_eq!(modes(&secret), [0o755, 0o644]);
    secret.environment.insert("API_TOKEN".into(), "x".into());
    assert_eq!(modes(&secret), [0o755, 0o600]);
}

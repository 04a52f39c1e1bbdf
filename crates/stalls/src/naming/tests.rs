//! Names of findings whose numbers are known.

use std::collections::BTreeSet;

use super::*;
use crate::culprit::Culprit;
use crate::finding::Member;
use crate::walk::Hop;
use sched::places::Frame;

/// Thread 7 with a stack 1 in `hold_lock` of the program, and a text 1.
struct Fake {
    stacks: [Stack; 4],
    quotas: Vec<String>,
}

impl Names for Fake {
    fn thread(&self, tid: Tid) -> String {
        format!("worker-{tid}")
    }
    fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id as usize]
    }
    fn words(&self, id: TextId) -> &str {
        ["", "write to /var/log/app"][id as usize]
    }
    fn holder(&self, _: StackId, _: StackId) -> Option<&str> {
        None
    }
    fn quota_groups(&self) -> Vec<String> {
        self.quotas.clone()
    }
}

fn fake() -> Fake {
    let frame = |name: &str, module: &str| Frame {
        name: name.into(),
        module: module.into(),
        start: 0,
        bytes: 0,
        package: String::new(),
        borrowed: false,
        interpreter: false,
    };
    let frames = vec![frame("write", "libc.so.6"), frame("hold_lock", "app")];
    let known = Stack {
        frames,
        ..Stack::default()
    };
    let of = |frames: Vec<Frame>| Stack {
        frames,
        ..Stack::default()
    };
    let collector = of(vec![frame("VM_GenCollectFull::doit()", "libjvm.so")]);
    let asks = of(vec![
        Frame {
            interpreter: true,
            ..frame("VMThread::execute", "libjvm.so")
        },
        Frame {
            borrowed: true,
            ..frame("java.lang.Runtime.gc", "java")
        },
        frame("shop.Billing.close", "java"),
    ]);
    Fake {
        stacks: [Stack::default(), known, collector, asks],
        quotas: Vec::new(),
    }
}

fn finding(cause: Cause) -> Finding {
    Finding {
        cause,
        count: 3,
        threads: BTreeSet::from([8, 9]),
        longest_ns: 2_000,
        total_ns: 5_000,
        first_ns: 0,
        last_ns: 9_000,
        episodes: 3,
        agreeing: 3,
        period_ns: None,
        open: false,
        inferred: false,
        unsure: false,
        culprit: Culprit {
            tid: 7,
            kind: LeafKind::OnCpu,
            activity: 1,
            stack: 1,
            release: 0,
            held: 0,
            samples: Vec::new(),
            rests: Vec::new(),
        },
        chain: Vec::new(),
        ran_instead: Vec::new(),
        waiters: vec![(1, 5_000)],
        objects: BTreeSet::new(),
        members: Vec::new(),
    }
}

#[test]
fn a_culprit_is_named_with_what_it_did_and_where() {
    let row = named(&finding(Cause::Lock), &fake(), &[]);
    assert_eq!(row.culprit.thread, "worker-7");
    assert_eq!(row.culprit.tid, Some(7));
    assert_eq!(row.culprit.activity, "write to /var/log/app");
    assert_eq!(row.culprit.stack, ["write", "hold_lock"]);
    assert_eq!(
        (row.threads, row.stalled),
        (2, vec!["worker-8".into(), "worker-9".into()])
    );
    assert_eq!(
        row.waiters,
        [(vec!["write".into(), "hold_lock".into()], 5_000)]
    );
}

#[test]
fn of_who_ran_instead_the_first_that_is_not_the_program_is_named() {
    let others = [
        (OWN_THREADS.to_owned(), 9_000),
        ("backup (pid 4)".to_owned(), 4_000),
    ];
    let row = named(&finding(Cause::CpuStarvation), &fake(), &others);
    assert_eq!(row.culprit.activity, "runnable while backup (pid 4) ran");
    assert_eq!(row.ran_instead.len(), 2);
    let row = named(&finding(Cause::CpuStarvation), &fake(), &[]);
    assert_eq!(row.culprit.activity, "runnable while others ran");
}

#[test]
fn a_quota_is_named_by_its_group() {
    let mut names = fake();
    let activity = |names: &Fake| {
        named(&finding(Cause::CpuQuota), names, &[])
            .culprit
            .activity
    };
    assert_eq!(activity(&names), "throttled by cgroup quota");
    names.quotas = vec!["/app.slice".into()];
    assert_eq!(activity(&names), "throttled by cgroup quota of /app.slice");
}

#[test]
fn a_hop_says_what_it_waited_for() {
    let mut chained = finding(Cause::Lock);
    let hop = Hop {
        tid: 8,
        kind: WaitKind::Lock,
        object: 0x10,
    };
    chained.chain = vec![Link { hop, ns: 4 }];
    let row = named(&chained, &fake(), &[]);
    assert_eq!(row.chain[0].waited_for, "lock 0x10");
    assert_eq!(row.chain[0].thread, "worker-8");
}

/// A JVM's collector is named by who asked for the collection, where that is among those that wait for it.
#[test]
fn who_asks_for_a_collection_is_to_blame_for_it() {
    let mut of_collector = finding(Cause::Lock);
    of_collector.culprit.stack = 2;
    of_collector.culprit.activity = 0;
    of_collector.waiters = vec![(1, 5_000)];
    let member = |tid| Member {
        tid,
        start_ns: 100,
        end_ns: 5_100,
        cause: Cause::Lock,
        culprit: 7,
        on_cpu: false,
    };
    of_collector.members = vec![member(8), member(9)];
    let row = named(&of_collector, &fake(), &[]);
    assert_eq!(row.culprit.activity, "garbage collection");
    of_collector.waiters.push((3, 1_000));
    let row = named(&of_collector, &fake(), &[]);
    assert_eq!(row.culprit.activity, "garbage collection", "asked once");
    of_collector.waiters[1].1 = 4_000;
    let row = named(&of_collector, &fake(), &[]);
    assert_eq!(row.culprit.function.as_deref(), Some("shop.Billing.close"));
    assert!(row.culprit.activity.ends_with("asked for by System.gc()"));
    assert_eq!(row.culprit.stack[1], "java.lang.Runtime.gc");
}

//! Whole logs, captured and written by hand (fixtures/README.md), whole, cut and damaged.

use jiff::tz::TimeZone;
use proptest::prelude::*;

use crate::blocks::{Blocks, KILLS_MAX};
use crate::kill::{By, Constraint, Kill, Missing, Outcome, TASKS_MAX};
use crate::line::{Clock, Lines};

const KMSG: &str = include_str!("../fixtures/linux-6.12.kmsg");
const CAPTURED: [&str; 4] = [
    include_str!("../fixtures/linux-5.10.dmesg"),
    include_str!("../fixtures/linux-6.1.dmesg"),
    KMSG,
    include_str!("../fixtures/linux-7.2.dmesg"),
];
const CGROUP1: &str = include_str!("../fixtures/linux-5.10-cgroup1.dmesg");
const CGROUP1_NOW: &str = include_str!("../fixtures/linux-6.18-cgroup1.dmesg-T");
const PANIC: &str = include_str!("../fixtures/linux-6.12-panic.console");
const LINUX_4_4: &str = include_str!("../fixtures/format-4.4.dmesg");
const LINUX_4_14: &str = include_str!("../fixtures/format-4.14.kern.log");
const LINUX_5_0: &str = include_str!("../fixtures/format-5.0.journal");

const MIB: u64 = 1 << 20;

fn kills(text: &str) -> Vec<Kill> {
    let clock = Clock {
        now_s: 1_795_761_000.0, // 2026-11-27T06:30:00Z
        zone: TimeZone::UTC,
        boot_wall_s: None,
    };
    let (mut lines, mut blocks) = (Lines::new(clock), Blocks::default());
    for (number, line) in text.lines().enumerate() {
        lines.read(line, number as u64 + 1, &mut |record| blocks.take(record));
    }
    blocks.finish().kills
}

/// Command, who else died with it, constraint.
fn names(kills: &[Kill]) -> Vec<(&str, usize, Constraint)> {
    let killed = |kill: &Kill| kill.victims.len();
    kills
        .iter()
        .map(|kill| {
            (
                kill.victim().map_or("", |victim| victim.command.as_str()),
                killed(kill),
                kill.constraint,
            )
        })
        .collect()
}

#[test]
fn four_kernels_tell_the_same() {
    use Constraint::{Cgroup, Machine};
    for text in CAPTURED {
        let kills = kills(text);
        let expected = [
            ("leaky-worker", 1, Cgroup),
            ("leaky-worker", 1, Cgroup),
            ("leaky-worker", 1, Cgroup),
            ("cache-writer", 1, Cgroup),
            ("batch", 2, Cgroup),
            ("log-shipper", 1, Cgroup),
            ("throttled", 1, Cgroup),
            ("hungry", 1, Machine),
            ("allocating", 1, Machine),
        ];
        assert_eq!(names(&kills), expected);
        for kill in &kills {
            assert_eq!(
                (kill.outcome, kill.missing.as_slice()),
                (Outcome::Killed, &[][..])
            );
            let request = kill.request.as_ref().unwrap();
            assert!(request.pid.is_some() && request.order == Some(0) && !request.gfp.is_empty());
            assert!(
                kill.kernel.as_ref().unwrap().contains("-cloud-amd64"),
                "{:?}",
                kill.kernel
            );
            assert!(kill.victim().unwrap().page_table_bytes.is_some());
        }
        leaky(&kills[0]);
        let cache = kills[3].cgroup.as_ref().unwrap();
        assert!(
            cache.shmem_bytes.unwrap() > 22 * MIB && cache.file_bytes == Some(0),
            "{cache:?}"
        );
        assert_eq!(
            kills[4].group_cgroup.as_deref(),
            Some("/system.slice/batch.service")
        );
        protected(&kills[5]);
        machine(&kills[7]);
        assert!(kills[8].is_allocating_task && !kills[7].is_allocating_task);
    }
}

fn leaky(kill: &Kill) {
    let cgroup = kill.cgroup.as_ref().unwrap();
    let memory = cgroup.memory.unwrap();
    assert_eq!(memory.limit_bytes, Some(40 * MIB));
    assert!(memory.is_at_limit() && memory.failures > 0);
    assert_eq!(cgroup.swap.unwrap().limit_bytes, None);
    assert!(cgroup.anon_bytes.unwrap() > 39 * MIB, "{cgroup:?}");
    assert!(
        kill.limit_cgroup
            .as_ref()
            .unwrap()
            .ends_with("2b4c8d.scope")
    );
    assert_eq!(kill.limit_cgroup, kill.task_cgroup);
    let victim = kill.victim().unwrap();
    assert_eq!(victim.oom_score_adj, Some(0));
    let row = &kill.tasks.largest[0];
    // The table counts in batches for each thread; the line of the victim does too.
    let differs = victim
        .resident_bytes()
        .unwrap()
        .abs_diff(row.resident_bytes);
    assert!(differs < MIB, "{differs}");
}

fn protected(kill: &Kill) {
    let rows: Vec<(&str, i32)> = kill
        .tasks
        .largest
        .iter()
        .map(|task| (task.command.as_str(), task.oom_score_adj))
        .collect();
    assert_eq!(rows, [("database", -999), ("log-shipper", 0)]);
}

fn machine(kill: &Kill) {
    let machine = kill.machine.as_ref().unwrap();
    let managed = machine.managed_bytes.unwrap();
    assert!(managed > 230 * MIB && managed < 300 * MIB);
    assert!(machine.anon_bytes > 200 * MIB, "{machine:?}");
    assert_eq!(
        (machine.swap_total_bytes, machine.huge_page_bytes),
        (Some(0), 0)
    );
    let unexplained = machine.unexplained_bytes().unwrap();
    assert!(
        unexplained.unsigned_abs() < managed / 20,
        "{unexplained} of {managed}"
    );
    assert!(machine.zones.iter().all(|zone| zone.min_bytes > 0) && machine.zones.len() == 2);
}

/// `/dev/kmsg`'s stamps are micros; those of dmesg seconds.
#[test]
fn stamps_are_those_of_the_first_message() {
    assert_eq!(kills(KMSG)[0].at.boot_s, Some(6.371147));
    assert_eq!(kills(CGROUP1_NOW)[0].at.wall_s, Some(1_795_762_256.0));
}

/// The same log as journalctl prints it.
#[test]
fn a_log_in_json_tells_the_same() {
    let mut json = String::new();
    for line in KMSG.lines() {
        let (head, text) = line.split_once(';').unwrap();
        let micros: u64 = head.split(',').nth(2).unwrap().parse().unwrap();
        let entry = serde_json::json!({
            "__REALTIME_TIMESTAMP": (1_795_700_000_000_000 + micros).to_string(),
            "_SOURCE_MONOTONIC_TIMESTAMP": micros.to_string(),
            "_TRANSPORT": "kernel",
            "MESSAGE": text.replace("\\x0a", "\n"),
        });
        json.push_str(&format!("{entry}\n"));
    }
    let mut found = kills(&json);
    for kill in &mut found {
        assert!(kill.at.wall_s.unwrap() > 1_795_700_006.0);
        kill.at.wall_s = None;
    }
    assert!(found == kills(KMSG));
}

#[test]
fn cgroup_v1_of_two_kernels() {
    let found = kills(CGROUP1);
    assert_eq!(names(&found), [("ingest", 1, Constraint::Cgroup); 2]);
    let cgroup = found[0].cgroup.as_ref().unwrap();
    assert_eq!(
        cgroup.path,
        "/kubepods/burstable/pod1b2c3d4e-5f60-4718-92a3-b4c5d6e7f809"
    );
    assert_eq!(cgroup.kernel_bytes, Some(196 << 10));
    assert!(
        found[0]
            .task_cgroup
            .as_ref()
            .unwrap()
            .starts_with(&format!("{}/", cgroup.path))
    );
    assert_eq!(found[0].tasks.count, 2);

    let found = kills(CGROUP1_NOW);
    assert_eq!(names(&found), [("session-store", 1, Constraint::Cgroup); 2]);
    let cgroup = found[0].cgroup.as_ref().unwrap();
    assert_eq!(
        (cgroup.anon_bytes, cgroup.kernel_bytes),
        (Some(50_180_096), Some(148 << 10))
    );
    assert_eq!(cgroup.memory_and_swap.unwrap().limit_bytes, None);
}

#[test]
fn a_panic_kills_nothing_and_everything() {
    let found = kills(PANIC);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].outcome, found[0].victims.len()),
        (Outcome::Panicked, 0)
    );
    assert_eq!(found[0].request.as_ref().unwrap().command, "panicking");
    assert!(found[0].machine.is_some());
}

#[test]
fn the_format_of_4_4() {
    let found = kills(LINUX_4_4);
    assert_eq!(names(&found), [("java", 1, Constraint::Cgroup)]);
    let (kill, cgroup) = (&found[0], found[0].cgroup.as_ref().unwrap());
    assert_eq!(cgroup.memory.unwrap().limit_bytes, Some(200 * MIB));
    assert_eq!(
        (cgroup.anon_bytes, cgroup.file_bytes),
        (Some(196_252 << 10), Some(1024 << 10))
    );
    assert_eq!(cgroup.kernel_bytes, Some(7524 << 10));
    assert!(
        kill.limit_cgroup
            .as_ref()
            .unwrap()
            .starts_with("/docker/77aa")
    );
    assert_eq!(kill.kernel.as_deref(), Some("4.4.0-200-generic"));
    assert_eq!(kill.victim().unwrap().swap_bytes, Some(12 * 4096));
    assert_eq!((kill.tasks.largest[0].pid, kill.tasks.count), (4021, 2));
    assert_eq!(kill.missing, []);
}

#[test]
fn the_format_of_4_14_kills_a_child_instead() {
    let found = kills(LINUX_4_14);
    assert_eq!(names(&found), [("mysql child", 1, Constraint::Machine)]);
    let kill = &found[0];
    let instead = kill.victim().unwrap().instead_of.clone();
    assert_eq!(instead, Some((7000, "mysqld".to_owned())));
    let machine = kill.machine.as_ref().unwrap();
    assert_eq!(machine.anon_bytes, (320_000 - 10_000) * 4096);
    assert_eq!(machine.slab_unreclaimable_bytes, 60_000 * 4096);
    assert_eq!(
        (machine.huge_page_bytes, machine.kernel_stack_bytes),
        (40 * MIB, 6000 << 10)
    );
    assert_eq!(
        (machine.swap_free_bytes, machine.swap_total_bytes),
        (Some(0), Some(524_284 << 10))
    );
    assert_eq!(
        (kill.nodes.as_deref(), kill.at.boot_s),
        (Some("0-1"), Some(88_000.1))
    );
}

#[test]
fn the_format_of_5_0_and_systemd_oomd() {
    let found = kills(LINUX_5_0);
    assert_eq!(found.len(), 2);
    let cgroup = found[0].cgroup.as_ref().unwrap();
    // Of the pod and of its container, added up.
    assert_eq!(
        (cgroup.anon_bytes, cgroup.shmem_bytes),
        (Some(512_000 << 10), Some(4096 << 10))
    );
    assert!(cgroup.memory_and_swap.unwrap().is_at_limit());
    assert_eq!(found[0].victim().unwrap().oom_score_adj, None);
    assert!(matches!(&found[1].by, By::SystemdOomd(why) if why.starts_with("memory pressure")));
    assert_eq!(found[1].killed_count, Some(12));
    assert!(
        found[1]
            .task_cgroup
            .as_ref()
            .unwrap()
            .ends_with("/browser.scope")
    );
}

/// Ten kills in five seconds have messages of their own, the others one line each.
#[test]
fn a_kill_without_its_messages_says_what_is_missing() {
    let line = "[    7.1] Memory cgroup out of memory: Killed process 9 (a) total-vm:8kB, anon-rss:4kB, file-rss:0kB, \
        shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0";
    let found = kills(&format!(
        "{line}\n{}\n",
        line.replace("process 9", "process 10")
    ));
    assert_eq!(names(&found), [("a", 1, Constraint::Cgroup); 2]);
    let expected = [Missing::Request, Missing::Memory, Missing::Tasks];
    assert_eq!(
        (found[0].missing.as_slice(), found[1].missing.as_slice()),
        (&expected[..], &expected[..])
    );
}

#[test]
fn a_failed_allocation_is_no_kill_and_lends_it_no_memory() {
    let block: Vec<&str> = KMSG.lines().collect();
    let from = block
        .iter()
        .position(|line| line.contains("page allocation failure"))
        .unwrap();
    assert_eq!(kills(&block[from..].join("\n")), []);
}

/// What the ring had overwritten, or what had not been written yet.
#[test]
fn cut_at_any_line_the_rest_is_told() {
    let lines: Vec<&str> = KMSG.lines().collect();
    let whole = kills(KMSG).len();
    for at in (0..lines.len()).step_by(7) {
        let front = kills(&lines[..at].join("\n"));
        let back = kills(&lines[at..].join("\n"));
        let sum = front.len() + back.len();
        assert!(sum == whole || sum == whole + 1, "{at}: {sum}");
        let partial = |kills: &[Kill]| kills.iter().filter(|kill| !kill.missing.is_empty()).count();
        assert!(partial(&front) <= 1 && partial(&back) <= 1, "{at}");
    }
}

#[test]
fn many_tasks_and_many_kills_take_bounded_memory() {
    let mut text = "[ 1.5] x invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0\n\
        [ 1.5] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
        .to_owned();
    for pid in 1..=50_000 {
        text += &format!(
            "[ 1.5] [{pid:>7}] 0 {pid} 10 {} 4096 0 0 worker {}\n",
            pid % 1000,
            pid % 3000
        );
    }
    text += "[ 1.5] Out of memory: Killed process 7 (w) total-vm:40kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB\n";
    let tasks = &kills(&text)[0].tasks;
    assert_eq!(
        (tasks.count, tasks.largest.len(), tasks.commands.len()),
        (50_000, TASKS_MAX, 8)
    );
    assert!(
        tasks
            .largest
            .iter()
            .all(|task| task.resident_bytes >= 998 * 4096)
    );

    let mut blocks = Blocks::default();
    let origin = crate::line::Origin::Kernel;
    for pid in 0..KILLS_MAX as u64 + 5 {
        blocks.take(&crate::line::Record {
            at: crate::kill::At::default(),
            line: pid,
            origin: &origin,
            text: &format!("Out of memory: Killed process {pid} (a) total-vm:8kB"),
        });
    }
    let found = blocks.finish();
    assert_eq!((found.kills.len(), found.left_out), (KILLS_MAX, 5));
}

proptest! {
    #[test]
    fn damage_is_an_answer(
        which in 0..CAPTURED.len(),
        damages in prop::collection::vec((0..60_000usize, any::<u8>()), 1..60),
        cut in 0..60_000usize,
    ) {
        let mut bytes = CAPTURED[which].as_bytes().to_vec();
        for (at, byte) in damages {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut.max(100));
        let found = kills(&String::from_utf8_lossy(&bytes));
        prop_assert!(found.len() < 100);
    }

    #[test]
    fn any_text_is_read(
        text in "(\\[|Killed process |invoked oom-killer: |oom-kill:constraint=|[ -~]|\n|[,:]|[0-9]{1,20}|é){0,80}",
    ) {
        let _ = kills(&text);
    }
}

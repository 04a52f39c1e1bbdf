//! Findings of logs, as the reader of the log gives them.

use super::*;
use ::oom::blocks::Blocks;
use ::oom::kill::At;
use ::oom::line::{Origin, Record};

/// A kill of a cgroup at some second: statistics, tasks (pid, pages, adj, name), the victim's pid and name.
fn kill(
    at_s: f64,
    stats: &str,
    tasks: &[(u32, u64, i32, &str)],
    victim: (u32, &str),
    path: &str,
) -> Kill {
    let mut lines = vec![
        format!(
            "{} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            victim.1
        ),
        "memory: usage 102400kB, limit 102400kB, failcnt 9".to_owned(),
        format!("Memory cgroup stats for {path}:"),
    ];
    lines.extend(stats.split(';').map(str::to_owned));
    lines.push(
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
            .to_owned(),
    );
    for (pid, pages, adj, name) in tasks {
        lines.push(format!(
            "[{pid:>7}]     0 {pid} {pages} {pages} 4096 0 {adj} {name}"
        ));
    }
    lines.push(format!(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={path},\
         task_memcg={path},task={},pid={},uid=0",
        victim.1, victim.0
    ));
    let pages = tasks
        .iter()
        .find(|task| task.0 == victim.0)
        .map_or(0, |task| task.1);
    lines.push(format!(
        "Memory cgroup out of memory: Killed process {} ({}) total-vm:{}kB, anon-rss:{}kB, file-rss:0kB, shmem-rss:0kB",
        victim.0,
        victim.1,
        pages * 4,
        pages * 4
    ));
    let mut blocks = Blocks::default();
    for text in &lines {
        let at = At {
            wall_s: None,
            boot_s: Some(at_s),
        };
        blocks.take(&Record {
            at,
            line: 1,
            origin: &Origin::Kernel,
            text,
        });
    }
    blocks.finish().kills.remove(0)
}

const ANON: &str = "anon 102000000;file 0;kernel 2000000;shmem 0";

fn one(kills: Vec<Kill>) -> OomFinding {
    let mut found = conclude(kills, |_| None);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn a_restart_loop_has_an_interval_and_a_lower_bound_of_growth() {
    let at = |second: f64, pid| {
        kill(
            second,
            ANON,
            &[(pid, 25_000, 0, "leaky")],
            (pid, "leaky"),
            "/a",
        )
    };
    let found = one(vec![at(100.0, 10), at(460.0, 11), at(810.0, 12)]);
    let growth = found.growth.as_ref().unwrap();
    assert_eq!(
        (growth.interval_s, growth.shortest_s, growth.longest_s),
        (350.0, 350.0, 360.0)
    );
    let rate = growth.bytes_per_hour().unwrap();
    assert!(
        (rate - 25_000.0 * 4096.0 / 350.0 * 3600.0).abs() < 1.0,
        "{rate}"
    );
    assert!(
        found
            .sentence
            .contains("kill 3 of the same command, one every"),
        "{}",
        found.sentence
    );
    assert!(
        found.next_step.contains("pgrep -n leaky"),
        "{}",
        found.next_step
    );
}

#[test]
fn workers_side_by_side_have_no_growth() {
    let tasks = [(10, 12_000, 0, "worker"), (11, 12_500, 0, "worker")];
    let later = [(10, 12_600, 0, "worker"), (12, 12_000, 0, "worker")];
    let found = one(vec![
        kill(100.0, ANON, &tasks, (11, "worker"), "/a"),
        kill(200.0, ANON, &later, (10, "worker"), "/a"),
    ]);
    let growth = found.growth.unwrap();
    assert_eq!((growth.interval_s, growth.bytes_per_hour()), (100.0, None));
}

#[test]
fn the_one_that_grew_beside_the_victim_is_named() {
    let at = |second, database, pid| {
        let tasks = [(5, database, -900, "database"), (pid, 5_000, 0, "shipper")];
        kill(second, ANON, &tasks, (pid, "shipper"), "/a")
    };
    let found = one(vec![at(100.0, 15_000, 10), at(3700.0, 20_000, 11)]);
    let standing = found.standing.as_ref().unwrap();
    assert!(standing.is_spared && standing.rank == 2);
    assert_eq!(found.beside.as_ref().unwrap().command, "database");
    assert!(
        found
            .limitations
            .iter()
            .any(|limitation| limitation.contains("database (pid 5) grew from")),
        "{:?}",
        found.limitations
    );
    assert!(found.next_step.contains("--pid 5"), "{}", found.next_step);
}

#[test]
fn what_the_memory_was_made_of_leads_to_the_next_step() {
    let many: Vec<(u32, u64, i32, &str)> = (1..=20).map(|pid| (pid, 1_200, 0, "php-fpm")).collect();
    let single = [(7, 500, 0, "a")];
    let cases = [
        (
            "anon 1000000;file 100000000;kernel 1000000;shmem 99000000",
            &single[..],
            "shared",
            "df -t tmpfs",
        ),
        (
            "anon 1000000;file 100000000;kernel 1000000;shmem 0",
            &single[..],
            "files",
            "file_dirty",
        ),
        (
            "anon 1000000;file 100000;kernel 90000000;shmem 0",
            &single[..],
            "kernel",
            "slabtop",
        ),
        (
            "anon 40000000;file 30000000;kernel 30000000;shmem 0",
            &single[..],
            "mixed",
            "pgrep -n a",
        ),
        (
            ANON,
            &many[..],
            "many_processes",
            "bound how many processes of php-fpm",
        ),
    ];
    for (stats, tasks, word, next) in cases {
        let victim = (tasks[0].0, tasks[0].3);
        let found = one(vec![kill(1.0, stats, tasks, victim, "/a")]);
        assert_eq!(found.made.word(), word, "{}", found.sentence);
        assert!(found.next_step.contains(next), "{}", found.next_step);
        let (parts, whole) = parts(found.last()).unwrap();
        let sum: f64 = parts.iter().map(|part| part.bytes).sum();
        assert!((sum - whole).abs() < 1.0);
    }
}

/// Each restart of a container has an id of its own.
#[test]
fn containers_of_one_pod_are_one_finding_and_others_are_not() {
    let path = |pod: char, container: char| {
        let pod = format!("8f1c2b7e-4d0a-4c52-9a37-5e0f1b2c3d4{pod}");
        format!(
            "/kubepods/burstable/pod{pod}/{}",
            container.to_string().repeat(64)
        )
    };
    let at = |second, path: &str| kill(second, ANON, &[(7, 25_000, 0, "a")], (7, "a"), path);
    let kills = vec![
        at(1.0, &path('e', 'a')),
        at(2.0, &path('e', 'b')),
        at(3.0, &path('f', 'c')),
    ];
    let found = conclude(kills, |_| None);
    let counts: Vec<usize> = found.iter().map(|finding| finding.kills.len()).collect();
    assert_eq!(counts, [1, 2], "the newest first");
}

/// A name goes into a command line only where a shell takes it as one word.
#[test]
fn a_hostile_name_is_in_no_command() {
    let found = one(vec![kill(
        1.0,
        ANON,
        &[(7, 25_000, 0, "$(reboot)")],
        (7, "$(reboot)"),
        "/a",
    )]);
    assert!(
        found.next_step.contains("--pid PID") && !found.next_step.contains("reboot"),
        "{}",
        found.next_step
    );
}

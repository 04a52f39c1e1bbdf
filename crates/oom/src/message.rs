//! Single messages of the OOM killer, by the formats of mm/oom_kill.c and mm/memcontrol.c.

use crate::kill::{Constraint, Counter, Request, Victim};

/// From here on (in kB) a limit is none: the kernel prints the largest number of pages, in kB.
const UNLIMITED_KB: u64 = 1 << 50;

/// `KEY=VALUE` or `KEY:VALUE` up to a comma or blank.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split([',', ' ']).next()
}

/// The number at the beginning of a text: "40704kB" is 40704.
pub fn leading(text: &str) -> Option<u64> {
    let end = text.bytes().position(|b| !b.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

/// `KEY123kB` anywhere in a text, in bytes.
pub fn kilobytes(text: &str, key: &str) -> Option<u64> {
    leading(text.split_once(key)?.1)?.checked_mul(1024)
}

/// `NAME invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0`; before 4.6 without the names of the
/// flags, from 4.9 to 4.20 with `nodemask=`, which then is no part of them.
pub fn request(text: &str) -> Option<Request> {
    let (command, rest) = text.split_once(" invoked oom-killer: ")?;
    let mask = rest.split_once("gfp_mask=").map_or("", |(_, mask)| mask);
    let flags = mask.split_once('(').and_then(|(number, flags)| {
        let flags = flags.split_once(')')?.0;
        (!number.contains(',')).then_some(flags)
    });
    let gfp = flags.unwrap_or_else(|| mask.split([',', ' ']).next().unwrap_or(""));
    Some(Request {
        command: command.to_owned(),
        pid: None,
        gfp: gfp.to_owned(),
        order: field(rest, "order=").and_then(|order| order.parse().ok()),
        oom_score_adj: field(rest, "oom_score_adj=").and_then(|adj| adj.parse().ok()),
    })
}

/// `CPU: 0 PID: 156 Comm: leaky-worker Not tainted 6.12.0 #1`: pid and release.
pub fn caller(text: &str) -> Option<(u32, Option<String>)> {
    if !text.starts_with("CPU: ") && !text.starts_with("Pid: ") {
        return None;
    }
    let pid = text
        .split_once("PID: ")
        .or_else(|| text.split_once("Pid: "))?
        .1;
    let pid = leading(pid)?.try_into().ok()?;
    // The release stands in front of the build's number.
    let release = text
        .rsplit_once(" #")
        .and_then(|(rest, _)| rest.rsplit(' ').next());
    Some((pid, release.map(str::to_owned)))
}

/// `oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,`
/// `task=x,pid=1,uid=0`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    pub constraint: Constraint,
    pub cpuset: Option<String>,
    pub nodes: Option<String>,
    pub limit_cgroup: Option<String>,
    pub task_cgroup: Option<String>,
    pub command: String,
    pub pid: Option<u32>,
    pub uid: Option<u32>,
}

/// Since 4.20. Names of cgroups and commands may hold commas: the keys around them end them.
pub fn summary(text: &str) -> Option<Summary> {
    let rest = text.strip_prefix("oom-kill:constraint=")?;
    let between = |from: &str, to: &str| {
        let value = rest.split_once(from)?.1;
        Some(value.split_once(to)?.0.to_owned())
    };
    let (head, uid) = rest.rsplit_once(",uid=").unwrap_or((rest, ""));
    let (head, pid) = head.rsplit_once(",pid=").unwrap_or((head, ""));
    let (_, command) = head.rsplit_once(",task=").unwrap_or((head, ""));
    let limit_cgroup = between(",oom_memcg=", ",task_memcg=");
    let constraint = match rest.split(',').next()? {
        "CONSTRAINT_MEMCG" => Constraint::Cgroup,
        "CONSTRAINT_CPUSET" => Constraint::Cpuset,
        "CONSTRAINT_MEMORY_POLICY" => Constraint::MemoryPolicy,
        "CONSTRAINT_NONE" => Constraint::Machine,
        _ => Constraint::Unknown,
    };
    Some(Summary {
        constraint,
        cpuset: between(",cpuset=", ",mems_allowed="),
        nodes: nodes(rest),
        limit_cgroup,
        task_cgroup: between(",task_memcg=", ",task="),
        command: command.to_owned(),
        pid: leading(pid.trim_start()).and_then(|pid| pid.try_into().ok()),
        uid: leading(uid.trim_start()).and_then(|uid| uid.try_into().ok()),
    })
}

/// `mems_allowed=0-1,3` up to the next key.
fn nodes(text: &str) -> Option<String> {
    let rest = text.split_once("mems_allowed=")?.1;
    let end = rest
        .bytes()
        .position(|b| !b.is_ascii_digit() && !b",-".contains(&b));
    let list = rest[..end.unwrap_or(rest.len())].trim_end_matches(',');
    (!list.is_empty()).then(|| list.to_owned())
}

/// Before 4.20, in a line of its own: `leaky-worker cpuset=/ mems_allowed=0`.
pub fn cpuset(text: &str) -> Option<(String, Option<String>)> {
    let (before, nodes_text) = text.split_once(" mems_allowed=")?;
    let cpuset = before.split_once("cpuset=")?.1;
    Some((
        cpuset.to_owned(),
        nodes(&format!("mems_allowed={nodes_text}")),
    ))
}

/// Before 4.20: `Task in /a/b killed as a result of limit of /a`: the task's cgroup and the limit's.
pub fn limit(text: &str) -> Option<(Option<String>, String)> {
    if let Some(path) = text.strip_prefix("Memory limit reached of cgroup ") {
        return Some((None, path.to_owned()));
    }
    let (task, limit) = text
        .strip_prefix("Task in ")?
        .split_once(" killed as a result of limit of ")?;
    Some((Some(task.to_owned()), limit.to_owned()))
}

/// `usage 40960kB, limit 40960kB, failcnt 21` behind a counter's name.
pub fn counter(text: &str, name: &str) -> Option<Counter> {
    let rest = text.strip_prefix(name)?.strip_prefix(": usage ")?;
    let limit_kb = leading(rest.split_once("limit ")?.1)?;
    Some(Counter {
        usage_bytes: leading(rest)?.saturating_mul(1024),
        limit_bytes: (limit_kb < UNLIMITED_KB).then(|| limit_kb * 1024),
        failures: rest
            .split_once("failcnt ")
            .and_then(|(_, count)| leading(count))
            .unwrap_or(0),
    })
}

/// Before 5.3, in a line of its own: `Out of memory: Kill process 12 (x) score 1000 or sacrifice child`: who was
/// chosen.
pub fn chosen(text: &str) -> Option<(u32, String)> {
    let rest = text.split_once(": Kill process ")?.1;
    let (command, _) = rest.split_once(" (")?.1.rsplit_once(") score ")?;
    Some((leading(rest)?.try_into().ok()?, command.to_owned()))
}

/// What stands before `Killed process`.
pub fn constraint_of_kill(text: &str) -> Option<Constraint> {
    let before = text.split_once("Kill")?.0;
    match before {
        "Memory cgroup out of memory: " => Some(Constraint::Cgroup),
        _ if before.starts_with("Out of memory") => Some(Constraint::Machine),
        _ => None,
    }
}

/// `Killed process 156 (leaky-worker) total-vm:42268kB, anon-rss:40704kB, file-rss:0kB, shmem-rss:544kB, UID:0
/// pgtables:116kB oom_score_adj:0`; older ones have fewer fields, Red Hat's `, UID 27,` behind the pid or the name.
pub fn killed(text: &str) -> Option<Victim> {
    let rest = text.split_once("Killed process ")?.1;
    let (name, numbers) = rest
        .split_once('(')?
        .1
        .split_once("total-vm:")
        .or_else(|| {
            // 2.6 and some backports say no more than the name.
            Some((rest.split_once('(')?.1, ""))
        })?;
    let command = name.rsplit_once(')')?.0;
    let uid = field(rest, "UID:").or_else(|| field(rest, ", UID "));
    Some(Victim {
        pid: leading(rest)?.try_into().ok()?,
        command: command.to_owned(),
        uid: uid.and_then(leading).and_then(|uid| uid.try_into().ok()),
        virtual_bytes: leading(numbers).and_then(|kb| kb.checked_mul(1024)),
        anon_bytes: kilobytes(numbers, "anon-rss:"),
        file_bytes: kilobytes(numbers, "file-rss:"),
        shmem_bytes: kilobytes(numbers, "shmem-rss:"),
        page_table_bytes: kilobytes(numbers, "pgtables:"),
        swap_bytes: None,
        oom_score_adj: field(numbers, "oom_score_adj:").and_then(|adj| adj.parse().ok()),
        instead_of: None,
    })
}

/// `Tasks in /a are going to be killed due to memory.oom.group set`
pub fn group(text: &str) -> Option<&str> {
    text.strip_prefix("Tasks in ")?
        .strip_suffix(" are going to be killed due to memory.oom.group set")
}

/// The machine stopped for want of memory: `vm.panic_on_oom`, or nothing was left to kill.
pub fn is_panic(text: &str) -> bool {
    text.strip_prefix("Kernel panic - not syncing: ")
        .is_some_and(|why| {
            why.starts_with("Out of memory") || why.starts_with("System is deadlocked on memory")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_every_version() {
        let cases = [
            (
                "x invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0",
                "0x201da",
            ),
            (
                "x invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0",
                "GFP_KERNEL",
            ),
            (
                "x invoked oom-killer: gfp_mask=0x14000c0, nodemask=(null), order=0, oom_score_adj=0",
                "0x14000c0",
            ),
            (
                "x invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
                "GFP_HIGHUSER_MOVABLE|__GFP_COMP",
            ),
        ];
        for (text, gfp) in cases {
            let found = request(text).unwrap();
            assert_eq!((found.command.as_str(), found.gfp.as_str()), ("x", gfp));
            assert_eq!(
                (found.order, found.oom_score_adj),
                (Some(0), Some(0)),
                "{text}"
            );
        }
    }

    #[test]
    fn names_with_brackets_and_commas_stay_whole() {
        let text =
            "Killed process 7 (a) b (x,y)) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB";
        assert_eq!(killed(text).unwrap().command, "a) b (x,y)");
        let text = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,b,mems_allowed=0-1,3,oom_memcg=/a,b,\
            task_memcg=/a,b/c,task=x,pid=1,y,pid=  7,uid= 33";
        let found = summary(text).unwrap();
        assert_eq!(found.limit_cgroup.as_deref(), Some("/a,b"));
        assert_eq!(found.task_cgroup.as_deref(), Some("/a,b/c"));
        assert_eq!(
            (found.command.as_str(), found.pid, found.uid),
            ("x,pid=1,y", Some(7), Some(33))
        );
        assert_eq!(
            (found.cpuset.as_deref(), found.nodes.as_deref()),
            (Some("a,b"), Some("0-1,3"))
        );
    }

    #[test]
    fn kills_of_older_kernels_and_of_red_hats() {
        let old = killed(
            "Killed process 9682, UID 27, (mysqld) total-vm:47388kB, anon-rss:3744kB, \
        file-rss:80kB",
        )
        .unwrap();
        assert_eq!(
            (old.pid, old.uid, old.command.as_str()),
            (9682, Some(27), "mysqld")
        );
        assert_eq!(
            (old.virtual_bytes, old.anon_bytes),
            (Some(47_388 << 10), Some(3744 << 10))
        );
        let seven = killed(
            "Killed process 12 (java), UID 1000, total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB",
        );
        let seven = seven.unwrap();
        assert_eq!(
            (seven.command.as_str(), seven.uid, seven.resident_bytes()),
            ("java", Some(1000), Some(4096))
        );
        assert_eq!(
            chosen(
                "Memory cgroup out of memory: Kill process 12 (a (b)) score 1000 or sacrifice child"
            ),
            Some((12, "a (b)".to_owned()))
        );
    }

    #[test]
    fn a_limit_without_a_limit() {
        let swap = counter(
            "swap: usage 0kB, limit 9007199254740988kB, failcnt 0",
            "swap",
        )
        .unwrap();
        assert_eq!(swap.limit_bytes, None);
        let memory = counter("memory: usage 40876kB, limit 40960kB, failcnt 21", "memory").unwrap();
        assert!(memory.is_at_limit() && memory.failures == 21);
    }

    #[test]
    fn who_called_and_on_which_kernel() {
        let release = |text: &str| caller(text).and_then(|(_, release)| release);
        assert_eq!(
            release(
                "CPU: 0 UID: 0 PID: 156 Comm: leaky worker Not tainted 6.12.117+deb12 #1  Debian 6.12.117-1"
            ),
            Some("6.12.117+deb12".to_owned())
        );
        assert_eq!(
            release("Pid: 23105, comm: a Tainted: G  B  2.6.30 #11"),
            Some("2.6.30".to_owned())
        );
        assert_eq!(caller("CPU: 2 PID: 7 Comm: a Not tainted").unwrap().0, 7);
    }
}

//! When a control group of the subject used up its CPU quota: `cpu.stat`, polled.

use std::fs;
use std::path::PathBuf;

/// The groups of the subject that have a quota, its own and those above.
#[derive(Debug, Default)]
pub struct Quotas {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    stat: PathBuf,
    name: String,
    last: Throttled,
    seen_ns: u64,
    period_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    pub times: u64,
    pub ns: u64,
}

/// A stretch in which a group was throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stretch {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl Quotas {
    pub fn of(pid: u32, now_ns: u64) -> Quotas {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let folders = parse_cgroup(&text).into_iter().flat_map(|path| {
            let path = path.trim_start_matches('/').to_string();
            ["cpu", "cpu,cpuacct", "unified", ""].map(|tree| {
                let root = PathBuf::from("/sys/fs/cgroup").join(tree);
                (root.clone(), root.join(&path))
            })
        });
        let mut groups: Vec<Group> = Vec::new();
        for (root, folder) in folders {
            for group in folder.ancestors().take_while(|f| f.starts_with(&root)) {
                let stat = group.join("cpu.stat");
                if limited(group) && groups.iter().all(|g| g.stat != stat) {
                    groups.push(Group {
                        last: read(&stat),
                        name: group.display().to_string(),
                        stat,
                        seen_ns: now_ns,
                        period_ns: period_ns(group),
                    });
                }
            }
        }
        Quotas { groups }
    }

    /// Names of the groups with a quota.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    /// Stretches of throttling since the last call: from the last poll that saw none, and at most
    /// a period of the quota longer, for the count moves when a throttled stretch begins and the
    /// time when it ends.
    pub fn poll(&mut self, now_ns: u64) -> Vec<Stretch> {
        let mut found = Vec::new();
        for group in &mut self.groups {
            let now = read(&group.stat);
            if now != group.last {
                found.push(Stretch {
                    start_ns: group.seen_ns.min(now_ns.saturating_sub(group.period_ns)),
                    end_ns: now_ns + group.period_ns,
                });
            }
            group.last = now;
            group.seen_ns = now_ns;
        }
        found
    }
}

fn limited(group: &std::path::Path) -> bool {
    let v1 = fs::read_to_string(group.join("cpu.cfs_quota_us"));
    if let Ok(text) = v1 {
        return text.trim().parse::<i64>().is_ok_and(|quota| quota > 0);
    }
    let v2 = fs::read_to_string(group.join("cpu.max")).unwrap_or_default();
    !v2.is_empty() && !v2.starts_with("max")
}

fn period_ns(group: &std::path::Path) -> u64 {
    const USUAL_NS: u64 = 100_000_000;
    let v1 = fs::read_to_string(group.join("cpu.cfs_period_us")).ok();
    let v2 = fs::read_to_string(group.join("cpu.max")).ok();
    let us = match (v1, v2) {
        (Some(text), _) => text.trim().parse().ok(),
        (None, Some(text)) => text.split_whitespace().nth(1).and_then(|n| n.parse().ok()),
        _ => None,
    };
    us.map_or(USUAL_NS, |us: u64| us * 1_000)
}

fn read(stat: &std::path::Path) -> Throttled {
    parse_cpu_stat(&fs::read_to_string(stat).unwrap_or_default())
}

/// Paths of /proc/PID/cgroup that may carry the cpu controller: version 2, and version 1's own.
pub fn parse_cgroup(text: &str) -> Vec<String> {
    let path = |line: &str| -> Option<String> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = controllers.is_empty() || controllers.split(',').any(|c| c == "cpu");
        ours.then(|| path.to_string())
    };
    text.lines().filter_map(path).collect()
}

/// `throttled_time` is nanoseconds (version 1), `throttled_usec` microseconds (version 2).
pub fn parse_cpu_stat(text: &str) -> Throttled {
    let number = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    let v2 = number("throttled_usec ").map(|us| us * 1_000);
    Throttled {
        times: number("nr_throttled ").unwrap_or(0),
        ns: number("throttled_time ").or(v2).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat_are_read() {
        // Linux 6.18: version 1, then version 2.
        let v1 = "nr_periods 84\nnr_throttled 79\nthrottled_time 4900000000\n";
        let v2 = "usage_usec 9\nnr_periods 84\nnr_throttled 79\nthrottled_usec 4900000\n";
        for text in [v1, v2] {
            let read = parse_cpu_stat(text);
            assert_eq!((read.times, read.ns), (79, 4_900_000_000));
        }
        assert_eq!(parse_cpu_stat("usage_usec 9\n"), Throttled::default());
    }

    #[test]
    fn the_cpu_controllers_path_is_found() {
        let v1 = "5:memory:/m\n2:cpuacct:/a\n1:cpu:/job/one\n";
        assert_eq!(parse_cgroup(v1), ["/job/one"]);
        assert_eq!(parse_cgroup("0::/user.slice\n"), ["/user.slice"]);
    }
}

//! A process and its descendants.

use observe::proc::ProcRoot;

/// A process by its pid and start: the pid alone may be given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    pub pid: i32,
    pub start_ticks: u64,
    pub parent: i32,
}

/// Every living process (zombies left out) with its parent.
pub fn read_everyone(root: &ProcRoot) -> std::io::Result<Vec<Member>> {
    let mut everyone = Vec::new();
    for entry in std::fs::read_dir(root.path())? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Gone in between is no error.
        let stat = std::fs::read(root.process(pid).join("stat")).unwrap_or_default();
        everyone.extend(parse_member(pid, &stat));
    }
    Ok(everyone)
}

/// Fields 3 (state), 4 (parent) and 22 (start) of `/proc/PID/stat`; `None` for a zombie.
fn parse_member(pid: i32, stat: &[u8]) -> Option<Member> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let alive = !matches!(*fields.first()?, "Z" | "X" | "x");
    let (parent, start) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
    alive.then_some(Member {
        pid,
        start_ticks: start,
        parent,
    })
}

/// `first` and all that descends from it, in the order of their pids.
pub fn descendants(everyone: &[Member], first: i32) -> Vec<Member> {
    let mut found: Vec<Member> = everyone
        .iter()
        .filter(|m| m.pid == first)
        .copied()
        .collect();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at].pid;
        let children = everyone
            .iter()
            .filter(|m| m.parent == parent && m.pid != parent);
        let fresh: Vec<Member> = children.filter(|m| !found.contains(m)).copied().collect();
        found.extend(fresh);
        at += 1;
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_blanks_and_brackets_are_skipped() {
        let text = b"77 (a) b (c) S 5 77 77 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        let member = parse_member(77, text).unwrap();
        assert_eq!((member.parent, member.start_ticks), (5, 9876));
        let zombie = b"77 (a) Z 5 77 77 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        assert_eq!(parse_member(77, zombie), None);
        assert_eq!(parse_member(77, b"77 (a"), None);
    }

    #[test]
    fn grandchildren_belong_to_it_and_others_do_not() {
        let member = |pid, parent| Member {
            pid,
            parent,
            start_ticks: 1,
        };
        let everyone = [
            member(1, 0),
            member(9, 1),
            member(12, 9),
            member(11, 12),
            member(13, 1),
        ];
        let found: Vec<i32> = descendants(&everyone, 9).iter().map(|m| m.pid).collect();
        assert_eq!(found, [9, 11, 12]);
    }
}

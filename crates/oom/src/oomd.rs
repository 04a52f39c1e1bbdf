//! What systemd-oomd and systemd write into the journal: kills of whole cgroups, from user space, without the kernel.

/// `Killed /a/b.service due to memory pressure for /a being 85.50% > 50.00% for > 20s with reclaim activity`: the
/// cgroup and the reason. Newer ones say `Marked /a for killing due to`.
pub fn killed(text: &str) -> Option<(&str, &str)> {
    let plain = text
        .strip_prefix("Killed ")
        .and_then(|rest| rest.split_once(" due to "));
    let marked = || {
        text.strip_prefix("Marked ")?
            .split_once(" for killing due to ")
    };
    plain
        .or_else(marked)
        .filter(|(path, _)| path.starts_with('/'))
}

/// `foo.service: systemd-oomd killed 12 process(es) in this unit.`
pub fn killed_in_unit(text: &str) -> Option<(&str, u64)> {
    let (unit, rest) = text.split_once(": systemd-oomd killed ")?;
    let count = rest.strip_suffix(" process(es) in this unit.")?;
    Some((unit, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_words_are_read() {
        let pressure =
            "memory pressure for /user.slice being 85.50% > 50.00% for > 20s with reclaim activity";
        for text in [
            format!("Killed /user.slice/a.scope due to {pressure}"),
            format!("Marked /user.slice/a.scope for killing due to {pressure}"),
        ] {
            assert_eq!(killed(&text), Some(("/user.slice/a.scope", pressure)));
        }
        assert_eq!(killed("Killed a process due to boredom"), None);
        let unit = "a.scope: systemd-oomd killed 12 process(es) in this unit.";
        assert_eq!(killed_in_unit(unit), Some(("a.scope", 12)));
    }
}

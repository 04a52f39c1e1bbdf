//! Names of units as they are typed: one unit, every instance that runs, or a template.

use super::unit::Unit;

/// `tor@` of `tor@a.service` and of `tor@.service`; `None` for a unit that is no instance.
pub fn template_prefix(name: &str) -> Option<&str> {
    name.find('@').map(|at| &name[..=at])
}

/// `a` of `tor@a.service`; `None` for what is no instance.
pub fn instance_name(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('@')?;
    let (instance, _) = rest.rsplit_once('.')?;
    Some(instance).filter(|instance| !instance.is_empty())
}

/// Why what was typed names no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// What was typed, quoted.
    #[error(
        "{0} is no name of a unit; write tor.service, tor@a.service, 'tor@*.service' (each instance that runs), or \
         tor@.service (the template itself)"
    )]
    NoName(String),
    /// A unit of another kind.
    #[error("{typed} is a {kind}; an arm is adopted by services")]
    Kind { typed: String, kind: String },
}

/// The name with `.service`, which may be left out when it is typed; why it is no name.
pub fn parse_pattern(typed: &str) -> Result<String, PatternError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\*?[]!".contains(c);
    if typed.is_empty() || typed.starts_with('-') || !typed.chars().all(fine) {
        return Err(PatternError::NoName(units::wording::quoted(typed)));
    }
    match typed.rsplit_once('.') {
        Some((_, "service")) => Ok(typed.to_owned()),
        Some((
            _,
            kind @ ("socket" | "timer" | "target" | "mount" | "slice" | "scope" | "path"),
        )) => Err(PatternError::Kind {
            typed: typed.to_owned(),
            kind: kind.to_owned(),
        }),
        _ => Ok(format!("{typed}.service")),
    }
}

pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// `tor@.service`: the template itself.
pub fn is_template(pattern: &str) -> bool {
    pattern.contains("@.")
}

/// Whether a pattern as typed means this unit.
pub fn matches(pattern: &str, name: &str) -> bool {
    if is_template(pattern) {
        return template_prefix(pattern) == template_prefix(name);
    }
    pattern == name || (is_glob(pattern) && glob(pattern.as_bytes(), name.as_bytes()))
}

/// `*`, `?` and `[...]` as systemd's fnmatch(3) has them.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            glob(&pattern[1..], name) || (!name.is_empty() && glob(pattern, &name[1..]))
        }
        (Some(b'['), Some(&c)) => match pattern.iter().skip(2).position(|&b| b == b']') {
            Some(end) => in_set(&pattern[1..end + 2], c) && glob(&pattern[end + 3..], &name[1..]),
            None => c == b'[' && glob(&pattern[1..], &name[1..]),
        },
        (Some(b'?'), Some(_)) => glob(&pattern[1..], &name[1..]),
        (Some(b'\\'), Some(c)) if pattern.get(1) == Some(c) => glob(&pattern[2..], &name[1..]),
        (Some(p), Some(c)) => p == c && glob(&pattern[1..], &name[1..]),
        _ => false,
    }
}

fn in_set(set: &[u8], c: u8) -> bool {
    let (negated, set) = match set.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut at = 0;
    let mut found = false;
    while at < set.len() {
        let range = set.get(at + 1) == Some(&b'-') && at + 2 < set.len();
        let last = if range { set[at + 2] } else { set[at] };
        found |= (set[at]..=last).contains(&c);
        at += if range { 3 } else { 1 };
    }
    found != negated
}

/// Why a unit cannot take part, when it does not run.
pub fn not_running(unit: &Unit) -> Option<String> {
    let name = &unit.name;
    match (unit.load.as_str(), unit.active.as_str(), unit.main_pid) {
        ("not-found", ..) => Some(format!("there is no unit {name}")),
        ("masked", ..) => Some(format!("{name} is masked; `systemctl unmask {name}` first")),
        ("loaded", "active", pid) if pid > 0 => None,
        ("loaded", "active", _) => Some(format!(
            "{name} is active and has no main process ({})",
            unit.sub
        )),
        ("loaded", active, _) => Some(format!("{name} does not run ({active}); start it first")),
        (load, ..) => Some(format!(
            "{name} is not loaded well ({load}); `systemctl status {name}` says why"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_are_typed() {
        assert_eq!(parse_pattern("tor").as_deref(), Ok("tor.service"));
        assert_eq!(parse_pattern("tor@a").as_deref(), Ok("tor@a.service"));
        assert_eq!(
            parse_pattern("tor@*.service").as_deref(),
            Ok("tor@*.service")
        );
        assert!(
            parse_pattern("tor.socket")
                .unwrap_err()
                .to_string()
                .contains("is a socket")
        );
        for wrong in ["", "-a", "a/b", "a b", "../x", "a\nb"] {
            assert!(parse_pattern(wrong).is_err(), "{wrong:?}");
        }
        assert!(is_template("tor@.service") && !is_template("tor@a.service"));
        assert_eq!(instance_name("tor@a\\x2db.service"), Some("a\\x2db"));
        assert_eq!(instance_name("tor@.service"), None);
        assert_eq!(template_prefix("tor@a.service"), Some("tor@"));
    }

    #[test]
    fn patterns_mean_what_systemd_means() {
        for (pattern, name, expected) in [
            ("tor@*.service", "tor@a.service", true),
            ("tor@*.service", "tors@a.service", false),
            ("tor@[a-c]?.service", "tor@b1.service", true),
            ("tor@[!a-c].service", "tor@b.service", false),
            ("tor@[ab].service", "tor@c.service", false),
            ("tor@.service", "tor@a.service", true),
            ("tor.service", "tor@a.service", false),
            ("tor@a.service", "tor@a.service", true),
            ("*", "x.service", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}

//! Which process belongs to which arm, from a file beside the readings (`nickname,group` or `process,arm`);
//! several files say how membership changed over time.

use std::collections::BTreeMap;
use std::io::Read;

use super::{ImportError, SideFile};

/// Processes and their arms, from an instant on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grouping {
    /// `None`: from the beginning.
    pub from_s: Option<f64>,
    pub arms: BTreeMap<String, String>,
}

/// Columns that the caller names; where the file has none of that name, those that are usual are looked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    pub process: Option<&'a str>,
    pub arm: Option<&'a str>,
}

/// Reads one grouping.
///
/// # Errors
/// It is no CSV, or has no column of processes or of arms.
pub fn parse_groups(
    input: impl Read,
    named: Named,
    from_s: Option<f64>,
) -> Result<Grouping, ImportError> {
    let mut file = SideFile::open(input)?;
    let find = |named: Option<&str>, usual: &[&str]| {
        let named = named.and_then(|name| file.find(&[&name.trim().to_lowercase()]));
        named.or_else(|| file.find(usual))
    };
    let usual = [
        "nickname", "process", "id", "name", "pid", "instance", "series",
    ];
    let (process, arm) = (
        find(named.process, &usual),
        find(named.arm, &["group", "arm"]),
    );
    let (Some(process), Some(arm)) = (process, arm) else {
        let next = "give columns process,arm or nickname,group, or name them by --id-column and --arm-column";
        return Err(ImportError::new(1, 0, "no process and arm columns", next));
    };
    let mut arms = BTreeMap::new();
    let mut record = csv::StringRecord::new();
    while file.next(&mut record)?.is_some() {
        let text = |i: usize| record.get(i).unwrap_or("").to_owned();
        if !text(process).is_empty() {
            arms.insert(text(process), text(arm));
        }
    }
    Ok(Grouping { from_s, arms })
}

/// The arm of a process at an instant by the last grouping that had begun; empty when none knows it.
pub fn arm_at<'a>(groupings: &'a [Grouping], process: &str, t_s: f64) -> &'a str {
    groupings
        .iter()
        .filter(|g| g.from_s.is_none_or(|from| from <= t_s))
        .filter_map(|g| g.arms.get(process))
        .next_back()
        .map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_grouping_that_had_begun_counts() {
        let first = parse_groups(
            "nickname,group\na,A\nb,B\n".as_bytes(),
            Named::default(),
            None,
        )
        .unwrap();
        let second = parse_groups(
            "process,arm\na,B\n".as_bytes(),
            Named::default(),
            Some(100.0),
        )
        .unwrap();
        let all = [first, second];
        assert_eq!(arm_at(&all, "a", 50.0), "A");
        assert_eq!(arm_at(&all, "a", 100.0), "B");
        assert_eq!(arm_at(&all, "b", 200.0), "B");
        assert_eq!(arm_at(&all, "c", 200.0), "");
        assert!(parse_groups("x,y\n".as_bytes(), Named::default(), None).is_err());
        let named = Named {
            process: Some("X"),
            arm: Some("y"),
        };
        let third = parse_groups("group,x,y\nz,a,C\n".as_bytes(), named, None).unwrap();
        assert_eq!(arm_at(&[third], "a", 0.0), "C");
    }
}

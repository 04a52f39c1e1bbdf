//! Which column is what, by name or by flag, and the unit of each.

use super::ImportError;
use crate::wording::nearest;

/// More columns than this are no table of readings.
pub const COLUMNS_MAX: usize = 4096;

/// Names given by flags; `None` looks for the usual ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    pub id: Option<String>,
    pub arm: Option<String>,
    pub time: Option<String>,
    pub value: Option<String>,
    /// "B", "kB", "KiB", "MB", "MiB", "GB", "GiB".
    pub unit: Option<String>,
}

/// Places of the columns, from 0, with factors to bytes and seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    pub id: Option<usize>,
    pub arm: Option<usize>,
    pub time: usize,
    pub time_factor: f64,
    pub value: usize,
    pub value_factor: f64,
    pub hwm: Option<(usize, f64)>,
    /// Rows of a TorUtils file say what they are; only those of one relay are readings of a process.
    pub kind: Option<usize>,
}

const IDS: &[&str] = &["id", "process", "nickname", "pid", "instance", "series"];
const ARMS: &[&str] = &["arm", "group"];
const TIMES: &[&str] = &[
    "t_s",
    "t",
    "time",
    "timestamp",
    "time_s",
    "epoch",
    "t_ms",
    "time_ms",
    "date",
];
const VALUES: &[&str] = &[
    "rss",
    "rss_bytes",
    "rss_b",
    "rss_kib",
    "rss_kb",
    "rss_mib",
    "rss_mb",
    "rss_gib",
    "rss_gb",
    "value",
    "bytes",
    "memory",
    "resident",
];

/// Factor to bytes of a unit as people write it.
pub fn unit_factor(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" | "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        _ => return None,
    })
}

/// The unit a column's name ends in. `_kb` is KiB: it is copied from /proc, which says kB and means KiB;
/// `--unit kB` says otherwise.
fn factor_of_name(name: &str) -> f64 {
    let tail = name.rsplit('_').next().unwrap_or("").to_ascii_lowercase();
    match tail.as_str() {
        "kb" => 1024.0,
        other => unit_factor(other).unwrap_or(1.0),
    }
}

/// Reads a header (line 1).
pub fn parse_header(names: &[String], wanted: &Wanted) -> Result<Columns, ImportError> {
    if names.len() > COLUMNS_MAX {
        return Err(ImportError::new(
            1,
            COLUMNS_MAX,
            format!("{} columns", names.len()),
            format!("a table of readings has at most {COLUMNS_MAX}; is it transposed?"),
        ));
    }
    let time = need(
        names,
        wanted.time.as_deref(),
        TIMES,
        "time",
        "--time-column",
    )?;
    let value = need(
        names,
        wanted.value.as_deref(),
        VALUES,
        "memory",
        "--value-column",
    )?;
    let value_factor = match &wanted.unit {
        None => factor_of_name(&names[value]),
        Some(unit) => unit_factor(unit).ok_or_else(|| {
            ImportError::new(
                1,
                value,
                format!("unknown unit {unit}"),
                "use B, kB, KiB, MB, MiB, GB or GiB",
            )
        })?,
    };
    let optional = |given: &Option<String>, usual: &[&str], flag: &str| match given {
        Some(_) => need(names, given.as_deref(), usual, "named", flag).map(Some),
        None => Ok(find(names, usual)),
    };
    let hwm = names
        .iter()
        .position(|n| n.to_ascii_lowercase().starts_with("hwm"));
    Ok(Columns {
        id: optional(&wanted.id, IDS, "--id-column")?,
        arm: optional(&wanted.arm, ARMS, "--arm-column")?,
        time,
        time_factor: if names[time].ends_with("_ms") {
            1e-3
        } else {
            1.0
        },
        value,
        value_factor,
        hwm: hwm.map(|i| (i, factor_of_name(&names[i]))),
        kind: names.iter().position(|n| n == "type"),
    })
}

fn find(names: &[String], usual: &[&str]) -> Option<usize> {
    usual
        .iter()
        .find_map(|u| names.iter().position(|n| n.trim().eq_ignore_ascii_case(u)))
}

fn need(
    names: &[String],
    given: Option<&str>,
    usual: &[&str],
    what: &str,
    flag: &str,
) -> Result<usize, ImportError> {
    let place = match given {
        Some(name) => names.iter().position(|n| n.trim() == name),
        None => find(names, usual),
    };
    place.ok_or_else(|| {
        let wish = given.unwrap_or(usual[0]);
        let near = nearest(wish, names.iter().map(String::as_str));
        let hint = near.map_or_else(String::new, |n| format!(" (is it {n}?)"));
        ImportError::new(
            1,
            0,
            format!("no {what} column{hint}"),
            format!("name it with {flag}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> Vec<String> {
        line.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn names_say_columns_and_units() {
        let c = parse_header(&header("id,t_s,rss_kib"), &Wanted::default()).unwrap();
        assert_eq!(
            (c.id, c.time, c.value, c.value_factor),
            (Some(0), 1, 2, 1024.0)
        );
        let c = parse_header(&header("arm,process,t_ms,rss_mib"), &Wanted::default()).unwrap();
        assert_eq!(
            (c.arm, c.id, c.time_factor, c.value_factor),
            (Some(0), Some(1), 1e-3, 1_048_576.0)
        );
        let wanted = Wanted {
            value: Some("mem".to_owned()),
            unit: Some("kB".to_owned()),
            ..Wanted::default()
        };
        let c = parse_header(&header("time,mem"), &wanted).unwrap();
        assert_eq!((c.id, c.value, c.value_factor), (None, 1, 1000.0));
    }

    #[test]
    fn what_is_missing_is_said() {
        let e = parse_header(&header("id,t_s"), &Wanted::default()).unwrap_err();
        assert_eq!(
            (e.line, e.next.as_str()),
            (1, "name it with --value-column")
        );
        let many: Vec<String> = (0..10_000).map(|i| format!("c{i}")).collect();
        assert!(
            parse_header(&many, &Wanted::default())
                .unwrap_err()
                .what
                .contains("10000 columns")
        );
    }
}

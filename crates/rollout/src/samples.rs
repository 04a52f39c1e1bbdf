//! Looks at the instances of a rollout, kept beside its journal: one line for each snapshot.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// 20 instances looked at once a minute for a year; then every second snapshot goes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One snapshot of all instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds since the Unix epoch.
    pub at_s: f64,
    pub instances: Vec<Sample>,
}

/// One instance at that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub unit: String,
    /// 0: no main process.
    pub pid: i32,
    pub start_ticks: u64,
    /// `None`: it does not run, or may not be read.
    pub rss_bytes: Option<u64>,
    /// Whether it runs the arm; `None`: it could not be told.
    pub runs_arm: Option<bool>,
}

/// Every snapshot that can be read; a torn or foreign line is left out.
pub fn read(path: &Path) -> io::Result<Vec<Snapshot>> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut snapshots: Vec<Snapshot> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    snapshots.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(snapshots)
}

/// Adds a snapshot. A line that a kill has torn is closed first.
pub fn append(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|data| data.len() > FILE_BYTES_MAX) {
        thin(path)?;
    }
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let torn = fs::read(path)?.last().is_some_and(|&byte| byte != b'\n');
    let line = format!(
        "{}{}\n",
        if torn { "\n" } else { "" },
        serde_json::to_string(snapshot)?
    );
    file.write_all(line.as_bytes())
}

fn thin(path: &Path) -> io::Result<()> {
    let kept = read(path)?.into_iter().step_by(2);
    let lines = kept.map(|snapshot| serde_json::to_string(&snapshot).map(|line| line + "\n"));
    let text: String = lines.collect::<Result<_, _>>()?;
    super::files::write(
        path,
        "thinned",
        super::files::Shape::new(text.as_bytes(), 0o600),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_s: f64) -> Snapshot {
        let sample = Sample {
            unit: "a.service".into(),
            pid: 7,
            start_ticks: 9,
            rss_bytes: Some(1 << 20),
            runs_arm: Some(true),
        };
        Snapshot {
            at_s,
            instances: vec![sample],
        }
    }

    #[test]
    fn a_torn_line_costs_one_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        assert_eq!(read(&path).unwrap(), []);
        append(&path, &snapshot(1.0)).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at_s\": 2.0, \"insta").unwrap();
        append(&path, &snapshot(3.0)).unwrap();
        assert_eq!(read(&path).unwrap(), [snapshot(1.0), snapshot(3.0)]);
        thin(&path).unwrap();
        assert_eq!(read(&path).unwrap(), [snapshot(1.0)]);
    }
}

//! systemd units and their main processes: asked of systemctl, or, where there is none, read from cgroups.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::glob::Glob;
use super::process::{all_pids, read_cgroup};
use crate::service::read_stat;

/// A system whose manager does not answer for so long has other troubles.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Units in one answer; a pattern that matches more was meant to be narrower.
const UNITS_MAX: usize = 4096;
const ANSWER_BYTES_MAX: u64 = 4 << 20;
const PROPERTIES: &str = "--property=Id,LoadState,ActiveState,SubState,MainPID,NRestarts";
/// What systemctl says where systemd is not the first process, or its bus cannot be reached.
const NO_SYSTEMD: &[&str] = &["not been booted with systemd", "Failed to connect to"];

/// One unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unit {
    pub name: String,
    pub main_pid: Option<i32>,
    /// How often systemd restarted it by itself since it was last started by hand; unknown from cgroups.
    pub restarts: Option<u64>,
    /// "active (running)", "failed (failed)"; empty from cgroups.
    pub state: String,
    pub exists: bool,
}

/// The units that these patterns name. A name without a pattern that systemd does not know is among them, and
/// does not exist.
///
/// # Errors
/// In words, when systemctl fails or does not answer.
pub fn read_units(patterns: &[String]) -> Result<Vec<Unit>, String> {
    match read_show(patterns) {
        Ok(Some(text)) => Ok(parse_show(&text)),
        Ok(None) => read_cgroup_units(patterns),
        Err(why) => Err(why),
    }
}

/// `None` where there is no systemctl, or no systemd behind it.
fn read_show(patterns: &[String]) -> Result<Option<String>, String> {
    let mut command = Command::new("systemctl");
    command
        .args(["show", "--no-pager", PROPERTIES, "--"])
        .args(patterns)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("systemctl could not be started: {error}")),
    };
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child)?;
    let text = |thread: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    let (out, err) = (text(out), text(err));
    match status.success() {
        true => Ok(Some(out)),
        false if NO_SYSTEMD.iter().any(|words| err.contains(words)) => Ok(None),
        false => Err(format!(
            "`systemctl show` failed ({status}): {}",
            err.lines().next().unwrap_or("it said nothing")
        )),
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read until an error counts.
        let _ = from.map(|from| from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes));
        bytes
    })
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = ANSWER_MAX.as_secs();
                return Err(format!("systemctl did not answer within {seconds} s"));
            }
        }
    }
}

/// `systemctl show`: blocks of `Name=value` with an empty line between them, names in any order.
pub fn parse_show(text: &str) -> Vec<Unit> {
    let blocks = text.split("\n\n").filter(|block| block.contains("Id="));
    blocks.take(UNITS_MAX).map(parse_block).collect()
}

fn parse_block(block: &str) -> Unit {
    let value = |name: &str| {
        let lines = block.lines();
        lines
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    };
    Unit {
        name: value("Id").to_owned(),
        main_pid: value("MainPID").parse().ok().filter(|pid| *pid > 0),
        restarts: value("NRestarts").parse().ok(),
        state: format!("{} ({})", value("ActiveState"), value("SubState")),
        exists: value("LoadState") != "not-found",
    }
}

/// Units by the cgroups of the processes that run. Of a unit, the oldest process whose parent is outside of it.
fn read_cgroup_units(patterns: &[String]) -> Result<Vec<Unit>, String> {
    let globs: Result<Vec<Glob>, String> = patterns.iter().map(|text| Glob::new(text)).collect();
    let globs = globs?;
    let mut oldest: std::collections::BTreeMap<String, (u64, i32)> = Default::default();
    for pid in all_pids() {
        let Some(unit) = unit_of(pid).filter(|unit| globs.iter().any(|glob| glob.matches(unit)))
        else {
            continue;
        };
        let Some(stat) = read_stat(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X')) else {
            continue;
        };
        if unit_of(stat.ppid).as_ref() == Some(&unit) {
            continue;
        }
        let found = (stat.starttime, pid);
        let known = oldest.entry(unit).or_insert(found);
        *known = (*known).min(found);
    }
    let unit = |(name, (_, pid)): (String, (u64, i32))| Unit {
        name,
        main_pid: Some(pid),
        exists: true,
        ..Unit::default()
    };
    Ok(oldest.into_iter().take(UNITS_MAX).map(unit).collect())
}

fn unit_of(pid: i32) -> Option<String> {
    parse_unit(&read_cgroup(pid)?).map(str::to_owned)
}

/// The innermost unit in the path of a cgroup.
fn parse_unit(path: &str) -> Option<&str> {
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    path.rsplit('/').find(is_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by systemctl 252 on Debian 12 for `systemctl show ... -- cron.service nothere.service`.
    const SHOW: &str = "Id=cron.service\nLoadState=loaded\nActiveState=active\nSubState=running\n\
        MainPID=812\nNRestarts=2\n\nMainPID=0\nNRestarts=0\nId=nothere.service\nLoadState=not-found\n\
        ActiveState=inactive\nSubState=dead\n";

    #[test]
    fn blocks_are_units_whatever_the_order() {
        let units = parse_show(SHOW);
        assert_eq!(units.len(), 2);
        assert_eq!((units[0].main_pid, units[0].restarts), (Some(812), Some(2)));
        assert_eq!(units[0].state, "active (running)");
        assert_eq!(units[1].name, "nothere.service");
        assert!(units[0].exists && !units[1].exists && units[1].main_pid.is_none());
        assert!(parse_show("").is_empty() && parse_show("\n\n=\n").is_empty());
    }

    #[test]
    fn the_innermost_unit_of_a_cgroup() {
        let cases = [
            (
                "/system.slice/system-tor.slice/tor@a.service",
                Some("tor@a.service"),
            ),
            (
                "/user.slice/user@0.service/app.slice/x.service",
                Some("x.service"),
            ),
            ("/system.slice/x.service/sub", Some("x.service")),
            ("/", None),
        ];
        for (path, unit) in cases {
            assert_eq!(parse_unit(path), unit, "{path}");
        }
    }
}

//! Units as `systemctl show` prints them: blocks of `Key=value`, one block for each unit.

use std::path::{Path, PathBuf};

/// What a rollout must know of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// The canonical name, aliases resolved: `tor@a.service`.
    pub name: String,
    /// loaded, not-found, masked, bad-setting, error.
    pub load: String,
    /// active, inactive, failed, activating, deactivating, reloading.
    pub active: String,
    pub sub: String,
    /// 0: none.
    pub main_pid: i32,
    /// Starts by systemd itself since the last start by a person.
    pub restarts: u64,
    /// Where its drop-ins lie, in the order in which systemd reads them.
    pub drop_ins: Vec<PathBuf>,
    /// Merged from the unit and its drop-ins, specifiers resolved, without the environment files.
    pub environment: Vec<(String, String)>,
    /// These win over `environment`. (path, may be absent)
    pub environment_files: Vec<(PathBuf, bool)>,
    /// Names, or NAME=VALUE, taken out at the very end.
    pub unset: Vec<String>,
    /// The program of the first ExecStart.
    pub program: Option<PathBuf>,
    /// RootDirectory or RootImage: the service sees another file system.
    pub other_root: Option<String>,
    /// The files on disk are newer than what systemd has loaded.
    pub needs_reload: bool,
}

/// The properties asked for.
pub const PROPERTIES: &str = "Id,LoadState,ActiveState,SubState,MainPID,NRestarts,DropInPaths,\
Environment,EnvironmentFiles,UnsetEnvironment,ExecStart,RootDirectory,RootImage,NeedDaemonReload";

/// Reads the blocks; unknown keys are left out, a block without a name too.
pub fn parse_show(text: &str) -> Vec<Unit> {
    text.split("\n\n")
        .map(parse_block)
        .filter(|unit| !unit.name.is_empty())
        .collect()
}

fn parse_block(block: &str) -> Unit {
    let mut unit = Unit::default();
    for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
        match key {
            "Id" => unit.name = value.to_owned(),
            "LoadState" => unit.load = value.to_owned(),
            "ActiveState" => unit.active = value.to_owned(),
            "SubState" => unit.sub = value.to_owned(),
            "MainPID" => unit.main_pid = value.parse().unwrap_or(0),
            "NRestarts" => unit.restarts = value.parse().unwrap_or(0),
            "DropInPaths" => {
                unit.drop_ins = parse_words(value).into_iter().map(PathBuf::from).collect();
            }
            "Environment" => unit.environment = assignments(value),
            "EnvironmentFiles" => unit.environment_files.extend(environment_file(value)),
            "UnsetEnvironment" => unit.unset = parse_words(value),
            // One line for each command of the unit; the first is the main one.
            "ExecStart" if unit.program.is_none() => unit.program = program(value),
            "RootDirectory" | "RootImage" if !matches!(value, "" | "/") => {
                unit.other_root = Some(value.to_owned());
            }
            "NeedDaemonReload" => unit.needs_reload = value == "yes",
            _ => {}
        }
    }
    unit
}

fn assignments(value: &str) -> Vec<(String, String)> {
    let pair = |word: String| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    parse_words(value).into_iter().filter_map(pair).collect()
}

/// `/etc/default/tor (ignore_errors=yes)`.
fn environment_file(value: &str) -> Option<(PathBuf, bool)> {
    let (path, rest) = value.rsplit_once(" (ignore_errors=")?;
    Some((PathBuf::from(path), rest.starts_with("yes")))
}

/// `{ path=/bin/sleep ; argv[]=/bin/sleep infinity ; ... }`.
fn program(value: &str) -> Option<PathBuf> {
    let from = value.split_once("path=")?.1;
    let path = from.split_once(" ; ").map_or(from, |(path, _)| path);
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

/// Words as systemd prints a list: bare, or in double quotes with C escapes.
pub fn parse_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&first) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let mut word = String::new();
        let mut quoted = false;
        while let Some(c) = chars.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '"' => quoted = !quoted,
                '\\' => word.push(chars.next().map_or('\\', unescaped)),
                other => word.push(other),
            }
        }
        words.push(word);
    }
    words
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        's' => ' ',
        other => other,
    }
}

/// The folder of a unit's drop-ins.
pub fn drop_in_folder(unit: &str) -> PathBuf {
    Path::new("/etc/systemd/system").join(format!("{unit}.d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `systemctl show` of systemd 252 (Debian 12) in a container, two units of a template with awkward values, a
    /// unit that does not exist and a masked one.
    const SHOWN: &str = include_str!("show.txt");

    #[test]
    fn units_as_systemd_prints_them() {
        let units = parse_show(SHOWN);
        let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        assert_eq!(
            names,
            ["nope.service", "w@m.service", "w@a.service", "w@b.service"]
        );
        let loads: Vec<&str> = units.iter().map(|unit| unit.load.as_str()).collect();
        assert_eq!(loads, ["not-found", "masked", "loaded", "loaded"]);
        let a = &units[2];
        assert_eq!(
            (a.main_pid, a.active.as_str(), a.sub.as_str()),
            (51, "active", "running")
        );
        let value = |name: &str| {
            let found = a.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("A"), Some("1"));
        assert_eq!(value("B"), Some("x y"));
        assert_eq!(value("C"), Some("a\"b\\c%d$e"));
        assert_eq!(value("D"), Some("l1\nl2"));
        assert_eq!(value("E"), Some("it's"));
        assert_eq!(value("F"), Some("tab\there"));
        assert_eq!(value("LD_PRELOAD"), Some(""));
        assert_eq!(
            a.environment_files,
            [(PathBuf::from("/etc/default/nothing"), true)]
        );
        assert_eq!(a.unset, ["ZZZ"]);
        assert_eq!(a.program.as_deref(), Some(Path::new("/bin/sleep")));
        assert_eq!(a.other_root, None);
        let drop_in = "/etc/systemd/system/w@a.service.d/override.conf";
        assert_eq!(a.drop_ins, [PathBuf::from(drop_in)]);
    }

    #[test]
    fn an_escaped_name_of_an_instance_stays_as_it_is() {
        // From the same systemd: paths with a backslash come in quotes, names do not.
        let shown = "MainPID=54\nEnvironment=\"A=b\\\\c\"\nId=x@a\\x2db.service\n\
            DropInPaths=\"/etc/systemd/system/x@a\\\\x2db.service.d/o.conf\"\n";
        let unit = &parse_show(shown)[0];
        assert_eq!(unit.name, "x@a\\x2db.service");
        let path = drop_in_folder(&unit.name).join("o.conf");
        assert_eq!(unit.drop_ins, [path]);
        assert_eq!(unit.environment, [("A".to_owned(), "b\\c".to_owned())]);
    }
}

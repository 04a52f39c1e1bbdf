//! The text of a drop-in: its header, `Environment=` by systemd's quoting, and what stands in its way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::unit::Unit;

/// How every file of ours begins.
pub const HEADER: &str = "# Written by highwater";
pub const NAME: &str = "highwater.conf";
/// Where a drop-in that is read after [`NAME`] sets one of our variables. `override.conf`, which `systemctl edit`
/// writes, is such a one.
pub const LATE_NAME: &str = "zz-highwater.conf";

/// The variable of the preloaded libraries.
pub const PRELOAD: &str = "LD_PRELOAD";

/// What one unit's drop-in is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The arm's libraries as the service will see them; empty: the system's allocator.
    pub libraries: Vec<PathBuf>,
    /// The arm's variables.
    pub environment: BTreeMap<String, String>,
}

/// What becomes of a unit's `LD_PRELOAD`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preload {
    /// `None`: the variable was not there and is not needed.
    pub value: Option<String>,
    /// Stay behind the arm's libraries.
    pub kept: Vec<String>,
    /// Export malloc themselves, so that they would stand in the arm's way.
    pub replaced: Vec<String>,
}

/// Joins the arm's libraries with what a unit preloads already; `is_allocator` says whether a file exports malloc.
pub fn combine(
    libraries: &[PathBuf],
    present: Option<&str>,
    is_allocator: &dyn Fn(&Path) -> bool,
) -> Preload {
    let mut preload = Preload::default();
    let present_words = present.unwrap_or_default().split([' ', ':', '\t']);
    for word in present_words.filter(|word| !word.is_empty()) {
        if libraries.iter().any(|library| library == Path::new(word)) {
            continue;
        }
        let list = if is_allocator(Path::new(word)) {
            &mut preload.replaced
        } else {
            &mut preload.kept
        };
        list.push(word.to_owned());
    }
    let ours = libraries
        .iter()
        .map(|library| library.display().to_string());
    let words: Vec<String> = ours.chain(preload.kept.iter().cloned()).collect();
    let needed = !words.is_empty() || !preload.replaced.is_empty();
    preload.value = needed.then(|| words.join(":"));
    preload
}

/// Why there is no drop-in with these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The name, quoted.
    #[error("{0} is no name of a variable that systemd takes")]
    Name(String),
    /// The variable's name.
    #[error("the value of {0} has a control character, which systemd refuses")]
    ControlCharacter(String),
    /// The arm's name.
    #[error("arm {0} is the program as it comes: there is nothing to adopt")]
    Nothing(String),
}

/// The drop-in's text; `told` are lines about the arm for whoever opens the file.
pub fn text(
    told: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<String, SettingError> {
    let mut out = format!("{HEADER}; `highwater revert` takes it away again. Do not edit.\n");
    for line in told {
        let plain: String = line.chars().filter(|c| !c.is_control()).collect();
        // A backslash at the end would draw the next line into the comment.
        out.push_str(&format!("# {}\n", plain.trim_end_matches('\\')));
    }
    out.push_str("[Service]\n");
    for (name, value) in environment {
        out.push_str(&format!("Environment={}\n", quote(name, value)?));
    }
    Ok(out)
}

/// One assignment as `Environment=` takes it: in double quotes with C escapes, `%` doubled (specifiers).
///
/// # Errors
/// A name or a value that systemd cannot hold, in words.
pub fn quote(name: &str, value: &str) -> Result<String, SettingError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = name.starts_with(|c: char| fine(c) && !c.is_ascii_digit());
    if !starts_well || !name.chars().all(fine) {
        return Err(SettingError::Name(units::wording::quoted(name)));
    }
    let mut out = format!("\"{name}=");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '%' => out.push_str("%%"),
            c if c.is_control() => {
                return Err(SettingError::ControlCharacter(name.to_owned()));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(out)
}

/// Drop-ins of a unit that are read after `name` and set, or reset, one of the variables.
pub fn later_settings<'a>(
    drop_ins: &'a [(PathBuf, String)],
    name: &str,
    variables: &[&str],
) -> Vec<&'a Path> {
    let later = |path: &Path| {
        let file = path.file_name().and_then(|name| name.to_str());
        file.is_some_and(|file| file > name)
    };
    let sets = |text: &str| text.lines().any(|line| touches(line, variables));
    drop_ins
        .iter()
        .filter(|(path, text)| later(path) && sets(text))
        .map(|(path, _)| path.as_path())
        .collect()
}

/// Whether a line of a unit file sets one of the variables, or empties the list of them.
fn touches(line: &str, variables: &[&str]) -> bool {
    let Some(rest) = line.trim().strip_prefix("Environment") else {
        return false;
    };
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        return false;
    };
    value.trim().is_empty()
        || variables
            .iter()
            .any(|name| value.contains(&format!("{name}=")))
}

/// Which of the variables an environment file sets: `NAME=value` lines, also behind `export`.
pub fn set_in_file<'a>(text: &str, variables: &[&'a str]) -> Vec<&'a str> {
    let sets = |name: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.split_once('=')
                .is_some_and(|(known, _)| known.trim() == name)
        })
    };
    variables
        .iter()
        .copied()
        .filter(|name| sets(name))
        .collect()
}

/// Variables that systemd takes out of the unit's environment at the very end.
pub fn unset<'a>(unit: &Unit, variables: &[&'a str]) -> Vec<&'a str> {
    let gone = |name: &str| {
        let names = unit.unset.iter().map(|word| word.split('=').next());
        names.flatten().any(|known| known == name)
    };
    variables
        .iter()
        .copied()
        .filter(|name| gone(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_systemd_would_misread_are_quoted() {
        // Each was read back from a service's /proc/PID/environ under systemd 252.
        for (value, quoted) in [
            ("1", "\"A=1\""),
            ("x y", "\"A=x y\""),
            ("a\"b\\c%d$e", "\"A=a\\\"b\\\\c%%d$e\""),
            ("l1\nl2\t.", "\"A=l1\\nl2\\t.\""),
            ("it's ü #;", "\"A=it's ü #;\""),
            ("", "\"A=\""),
        ] {
            assert_eq!(quote("A", value).as_deref(), Ok(quoted));
        }
        assert!(quote("A", "a\u{1b}[2J").is_err());
        for name in ["", "1A", "A B", "A=", "A-B"] {
            assert!(quote(name, "x").is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_is_preloaded_already_stays_behind_unless_it_is_an_allocator() {
        let is_allocator = |path: &Path| path.to_string_lossy().contains("malloc");
        let ours = [PathBuf::from("/o/libjemalloc.so")];
        let joined = combine(
            &ours,
            Some("/a/libx.so:/a/libmimalloc.so /a/liby.so"),
            &is_allocator,
        );
        assert_eq!(
            joined.value.as_deref(),
            Some("/o/libjemalloc.so:/a/libx.so:/a/liby.so")
        );
        assert_eq!(joined.kept, ["/a/libx.so", "/a/liby.so"]);
        assert_eq!(joined.replaced, ["/a/libmimalloc.so"]);
        let again = combine(&ours, Some("/o/libjemalloc.so"), &is_allocator);
        assert_eq!(again.value.as_deref(), Some("/o/libjemalloc.so"));
        // The system's allocator: another one must go, and the variable is emptied.
        let system = combine(&[], Some("/a/libmimalloc.so"), &is_allocator);
        assert_eq!(system.value.as_deref(), Some(""));
        assert_eq!(combine(&[], None, &is_allocator), Preload::default());
    }

    #[test]
    fn later_files_that_would_win_are_found() {
        let file = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
        let drop_ins = [
            file(
                "/x.d/10-a.conf",
                "[Service]\nEnvironment=LD_PRELOAD=/a.so\n",
            ),
            file(
                "/x.d/limits.conf",
                "[Service]\nLimitNOFILE=10\nEnvironmentFile=/LD_PRELOAD=\n",
            ),
            file(
                "/x.d/override.conf",
                "[Service]\nEnvironment = \"B=1\" LD_PRELOAD=/a.so\n",
            ),
            file("/x.d/reset.conf", "[Service]\nEnvironment=\n"),
        ];
        let found = later_settings(&drop_ins, NAME, &[PRELOAD]);
        assert_eq!(
            found,
            [
                Path::new("/x.d/override.conf"),
                Path::new("/x.d/reset.conf")
            ]
        );
        assert!(later_settings(&drop_ins, LATE_NAME, &[PRELOAD]).is_empty());
        let text = "# LD_PRELOAD=no\nA=1\nexport LD_PRELOAD=/x.so\n";
        assert_eq!(set_in_file(text, &["A", "B", PRELOAD]), ["A", PRELOAD]);
    }

    #[test]
    fn a_drop_in_cannot_be_broken_out_of() {
        let environment = BTreeMap::from([("A".to_owned(), "1\"\nExecStart=/bin/x".to_owned())]);
        let told = ["arm x\nExecStart=/bin/y \\".to_owned()];
        let text = text(&told, &environment).unwrap();
        assert!(
            !text.lines().any(|line| line.starts_with("ExecStart")),
            "{text}"
        );
        assert!(text.lines().all(|line| !line.ends_with('\\')), "{text}");
    }
}

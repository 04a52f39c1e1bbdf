//! How an arm is put into service and taken back: the command of ours, and a systemd drop-in in plain text for
//! whoever does it by hand.

use experiment::file::Arm;
use observe::member;
use record::run::Run;
use series::arms::subjects;
use units::wording::shell_word;
use verdict::run::recommend::Recommendation;

/// Stands for the unit where the run does not know one.
const UNIT: &str = "UNIT";

/// A drop-in that sets nothing.
const NOTHING: &str = "[Service]\n";

/// What to run and to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    pub arm: String,
    /// For a shell; none when nothing is to be set.
    pub commands: Vec<String>,
    /// Text of `UNIT.d/highwater.conf`; empty when nothing is to be set.
    pub drop_in: String,
    /// What the drop-in cannot do, a sentence each.
    pub notes: Vec<String>,
    /// For a shell: after the drop-in is written, and to take it back.
    pub apply: Vec<String>,
    pub back: Vec<String>,
}

/// For the recommended arm; `None` when nothing is to be changed.
pub fn adoption(run: &Run, recommendation: &Recommendation) -> Option<Adoption> {
    let name = recommendation.arm.as_ref()?;
    let arm = run.experiment.arms.iter().find(|arm| arm.name == *name)?;
    let unit = unit(run);
    let (drop_in, mut notes) = drop_in(run, arm);
    let words = [name.as_str(), "--run", &run.id, "--unit", &unit].map(shell_word);
    let folder = shell_word(&format!("/etc/systemd/system/{unit}.d"));
    let restart = [
        "systemctl daemon-reload".to_owned(),
        format!("systemctl restart {}", shell_word(&unit)),
    ];
    let back = vec![format!("rm {folder}/highwater.conf")];
    let is_nothing = drop_in == NOTHING && notes.is_empty();
    if is_nothing {
        notes.push(
            "What makes this arm is not in the experiment file: no allocator, no variable, no argument. The person who \
             set its processes up knows how to do it for the others."
                .into(),
        );
    }
    Some(Adoption {
        arm: name.clone(),
        commands: match is_nothing {
            true => Vec::new(),
            false => vec![format!("highwater adopt {}", words.join(" "))],
        },
        drop_in: if drop_in == NOTHING {
            String::new()
        } else {
            drop_in
        },
        notes,
        apply: restart.to_vec(),
        back: back.into_iter().chain(restart).collect(),
    })
}

/// The unit of the plan, when there is exactly one; a pattern stands for many.
fn unit(run: &Run) -> String {
    let mut units = run
        .experiment
        .subject
        .attach
        .iter()
        .flat_map(|group| &group.units);
    match (units.next(), units.next()) {
        (Some(unit), None) if !unit.contains(['*', '?', '[']) => unit.clone(),
        _ => UNIT.to_owned(),
    }
}

fn drop_in(run: &Run, arm: &Arm) -> (String, Vec<String>) {
    let mut text = NOTHING.to_owned();
    let mut notes = Vec::new();
    match preload(run, arm) {
        Preload::Nothing => {}
        Preload::Library(path) => text.push_str(&environment("LD_PRELOAD", &path)),
        Preload::Unknown => notes.push(
            "The library of this arm is not among the recorded facts; `highwater allocators list` has its path for \
             LD_PRELOAD."
                .into(),
        ),
        Preload::Loader => notes.push(
            "This arm is a whole C library with a loader of its own: a preload is not enough, see `highwater \
             allocators`."
                .into(),
        ),
    }
    for (name, value) in &arm.environment {
        text.push_str(&environment(name, value));
        if value.contains("[redacted]") {
            notes.push(format!("The value of {name} was left out of the record."));
        }
    }
    if !arm.arguments.is_empty() {
        let words: Vec<String> = arm.arguments.iter().map(|word| shell_word(word)).collect();
        notes.push(format!(
            "ExecStart= needs these arguments as well: {}",
            words.join(" ")
        ));
    }
    if let Some(command) = &arm.command {
        let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
        notes.push(format!(
            "The arm has a command of its own: {}",
            words.join(" ")
        ));
    }
    (text, notes)
}

enum Preload {
    Nothing,
    Library(String),
    Loader,
    Unknown,
}

fn preload(run: &Run, arm: &Arm) -> Preload {
    match arm.allocator.as_str() {
        "" | "glibc" => return Preload::Nothing,
        whole if whole.starts_with("glibc@") => return Preload::Loader,
        path if path.starts_with('/') => return Preload::Library(path.to_owned()),
        _ => {}
    }
    let replicas = subjects(run, &arm.name);
    let mut processes = replicas.values().flatten();
    let answer = processes.find_map(|p| member::latest(&p.facts, "malloc.library"));
    answer.map_or(Preload::Unknown, |path| Preload::Library(path.to_owned()))
}

/// A line of a unit: quotes and backslashes escaped, `%` doubled, controls as systemd spells them.
fn environment(name: &str, value: &str) -> String {
    let mut safe = String::new();
    for character in format!("{name}={value}").chars() {
        match character {
            '"' | '\\' => safe.extend(['\\', character]),
            '%' => safe.push_str("%%"),
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            control if control.is_control() => safe.push_str(&format!("\\x{:02x}", control as u32)),
            other => safe.push(other),
        }
    }
    format!("Environment=\"{safe}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_unit_cannot_be_left() {
        assert_eq!(
            environment("A", "x\"y\\%i\nExecStart=/bin/evil\u{1}"),
            "Environment=\"A=x\\\"y\\\\%%i\\nExecStart=/bin/evil\\x01\"\n"
        );
    }
}

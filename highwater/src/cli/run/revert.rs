//! The commands under `[revert]`, run when a guard stops an arm of processes that were there before and that the
//! experiment file lets us manage. On a thread of their own: the other arms go on.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::trial::run_command;
use experiment::file::redact::redact_command;
use experiment::file::{Experiment, SubjectKind};
use experiment::placeholder::{Values, mentions};
use experiment::service::Launch;
use observe::snapshot::EventKind;

/// A command that takes longer is ended: a unit that restarts and drains its connections may take minutes.
const COMMAND_MAX: Duration = Duration::from_secs(300);

/// What became of one command.
#[derive(Debug, Clone)]
pub struct Undone {
    pub arm: String,
    pub kind: EventKind,
    pub words: String,
}

/// The reverts of a run.
#[derive(Debug)]
pub struct Reverts {
    sender: Sender<Undone>,
    receiver: Receiver<Undone>,
    under_way: usize,
}

/// Who may be touched when a guard stops an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// highwater started the processes, and ends them.
    Own,
    /// They were there before, and are left alone.
    Observe,
    /// They were there before, and the commands under `[revert]` are run.
    Manage,
}

impl Reach {
    pub fn of(experiment: &Experiment) -> Reach {
        match (experiment.subject.kind, experiment.subject.managed) {
            (SubjectKind::Attach, false) | (SubjectKind::Remote, _) => Reach::Observe,
            (SubjectKind::Attach, true) => Reach::Manage,
            _ => Reach::Own,
        }
    }

    /// What happens to the processes of an arm that is stopped, as the end of a sentence.
    pub fn words(self, experiment: &Experiment) -> &'static str {
        match self {
            Reach::Own => "",
            Reach::Observe => "; its processes run on: this run only observes",
            Reach::Manage if experiment.revert.commands.is_empty() => {
                "; its processes run on: [revert] has no commands"
            }
            Reach::Manage => "; the commands under [revert] are run",
        }
    }
}

impl Default for Reverts {
    fn default() -> Reverts {
        let (sender, receiver) = channel();
        Reverts {
            sender,
            receiver,
            under_way: 0,
        }
    }
}

impl Reverts {
    /// Runs the commands for an arm whose processes have these values, one after the other. One that fails is said,
    /// and those after it are run all the same: as much as possible is taken back.
    pub fn begin(&mut self, experiment: &Experiment, arm: &str, processes: &[Values]) {
        let revert = &experiment.revert.commands;
        let commands = commands(&experiment.base, revert, arm, processes);
        self.under_way += commands.len();
        let (sender, arm) = (self.sender.clone(), arm.to_owned());
        thread::spawn(move || {
            for command in commands {
                let (kind, words) = match command {
                    Ok(launch) => run(&launch),
                    Err(why) => (EventKind::Degraded, format!("not reverted: {why}")),
                };
                let words = format!("arm {arm}: {words}");
                let arm = arm.clone();
                // Nobody listens any more when the run was ended by force.
                let _ = sender.send(Undone { arm, kind, words });
            }
        });
    }

    /// What has finished since the last call.
    pub fn finished(&mut self) -> Vec<Undone> {
        let undone: Vec<Undone> = self.receiver.try_iter().collect();
        self.under_way -= undone.len();
        undone
    }

    /// Waits for the commands that are under way.
    pub fn wait(&mut self) -> Vec<Undone> {
        let deadline = Instant::now() + COMMAND_MAX * u32::try_from(self.under_way).unwrap_or(1);
        let mut undone = Vec::new();
        while self.under_way > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(one) = self.receiver.recv_timeout(left) else {
                break;
            };
            self.under_way -= 1;
            undone.push(one);
        }
        undone
    }
}

/// The commands with their placeholders filled in; one with `{unit}` or `{pid}` once for each process.
fn commands(
    base: &Path,
    commands: &[Vec<String>],
    arm: &str,
    processes: &[Values],
) -> Vec<Result<Launch, String>> {
    let of_arm = Values {
        arm: Some(arm.to_owned()),
        ..processes.first().cloned().unwrap_or_default()
    };
    let filled = |command: &[String], values: &Values| {
        Launch::of_check(base, command, values).map_err(|error| error.to_string())
    };
    let mut all = Vec::new();
    for command in commands {
        let each = ["unit", "pid", "replica"];
        let is_each = command
            .iter()
            .any(|word| each.iter().any(|name| mentions(word, name)));
        match is_each {
            true => all.extend(processes.iter().map(|values| filled(command, values))),
            false => all.push(filled(command, &of_arm)),
        }
    }
    all
}

fn run(launch: &Launch) -> (EventKind, String) {
    let shown = redact_command(&launch.arguments).join(" ");
    match run_command(launch, COMMAND_MAX) {
        Ok((status, _)) if status.success() => (EventKind::Reverted, format!("`{shown}` is done")),
        Ok((status, said)) => (
            EventKind::Degraded,
            format!("not reverted: `{shown}` ended with {status}: {said}"),
        ),
        Err(why) => (
            EventKind::Degraded,
            format!("not reverted: `{shown}`: {why}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::file::parse_experiment;

    fn values(unit: &str) -> Values {
        Values {
            arm: Some("b".into()),
            unit: Some(unit.into()),
            ..Values::default()
        }
    }

    #[test]
    fn a_command_with_a_unit_is_run_for_each_process() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let given = [
            words("revert {arm}"),
            words("systemctl restart {unit}"),
            words("x {pid}"),
        ];
        let all = [values("1.service"), values("2.service")];
        let found = commands(Path::new("/base"), &given, "b", &all);
        let arguments: Vec<Vec<String>> = found
            .iter()
            .flatten()
            .map(|l| l.arguments.clone())
            .collect();
        assert_eq!(arguments[0], words("revert b"));
        assert_eq!(arguments[1], words("systemctl restart 1.service"));
        assert_eq!(arguments[2], words("systemctl restart 2.service"));
        assert!(
            found[3].as_ref().is_err_and(|why| why.contains("pid")),
            "{found:?}"
        );
    }

    #[test]
    fn a_command_that_fails_does_not_stop_the_others() {
        let text = "name = \"x\"\nhypothesis = \"\"\ncontrol = \"a\"\n[subject]\ncommand = \"true\"\n\
                    [[arms]]\nname = \"a\"\n";
        let base = std::env::temp_dir();
        let mut experiment = parse_experiment(text, "x", &base, &[], &|_| Ok(())).unwrap();
        experiment.revert.commands = vec![
            vec!["sh".into(), "-c".into(), "echo no >&2; exit 3".into()],
            vec!["true".into()],
        ];
        let mut reverts = Reverts::default();
        reverts.begin(&experiment, "b", &[]);
        let undone = reverts.wait();
        assert_eq!(undone.len(), 2);
        assert!(
            undone[0].kind == EventKind::Degraded && undone[0].words.contains("no"),
            "{undone:?}"
        );
        assert_eq!(undone[1].kind, EventKind::Reverted);
    }
}

//! How an instance shows that it is well, besides being active and running its arm.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pattern::instance_name;
use super::systemd::{Trouble, run_bounded};
use experiment::service::Question;

/// One try of a command takes no longer.
pub const COMMAND_MAX: Duration = Duration::from_secs(10);
/// Nor is it ended sooner, however little time is left: a slow check is no failed one.
pub const COMMAND_MIN: Duration = Duration::from_secs(5);
/// How much of what a failing command says is repeated.
const SAID_CHARS_MAX: usize = 200;

/// What is asked of every instance. `{instance}`, `{unit}` and `{pid}` in the texts stand for that instance's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing more.
    None,
    /// This address answers 200.
    Http(String),
    /// This address accepts a connection.
    Tcp(String),
    /// The command ends with 0. No shell runs.
    Command(Vec<String>),
}

/// Why there is no health check, or what it found instead of health.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    #[error("the health command has an open quote, or no word at all")]
    OpenQuote,
    #[error("the health command is empty")]
    Empty,
    /// What was typed, quoted.
    #[error(
        "{0} is no health check; write none, http://..., tcp:HOST:PORT or 'command:PROGRAM ARGUMENTS'"
    )]
    Unknown(String),
    /// The word between the braces.
    #[error(
        "{{{0}}} stands for nothing in a health check; there are {{instance}}, {{unit}} and {{pid}}"
    )]
    Placeholder(String),
    /// An address, or a program, and why it gave no good answer.
    #[error("{asked}: {why}")]
    Answer { asked: String, why: String },
    /// `printed` is empty, or begins with a colon.
    #[error("{program} failed{printed}")]
    Failed { program: String, printed: String },
    #[error("there is no program {0}")]
    NoProgram(String),
    #[error("{program} did not end within {:.0} s and was killed", limit.as_secs_f64())]
    Late { program: String, limit: Duration },
}

impl Health {
    /// Understands `none`, `http://...`, `https://...`, `tcp:HOST:PORT`, `command:PROGRAM ARGUMENTS`.
    ///
    /// # Errors
    /// What was typed is none of these.
    pub fn parse(typed: &str) -> Result<Health, HealthError> {
        let health = match typed.split_once(':') {
            _ if typed == "none" => Health::None,
            Some(("http" | "https", rest)) if rest.starts_with("//") => {
                Health::Http(typed.to_owned())
            }
            Some(("tcp", address)) if address.contains(':') => Health::Tcp(address.to_owned()),
            Some(("command", text)) => {
                let words = shlex::split(text).filter(|words| !words.is_empty());
                Health::Command(words.ok_or(HealthError::OpenQuote)?)
            }
            _ => {
                return Err(HealthError::Unknown(units::wording::quoted(typed)));
            }
        };
        for text in health.texts() {
            fill(text, "a.service", 1)?;
        }
        Ok(health)
    }

    fn texts(&self) -> Vec<&str> {
        match self {
            Health::None => Vec::new(),
            Health::Http(text) | Health::Tcp(text) => vec![text],
            Health::Command(words) => words.iter().map(String::as_str).collect(),
        }
    }

    /// Asks once. A command that does not end is killed, with its process group, when `left` is over, but not
    /// before [`COMMAND_MIN`] nor after [`COMMAND_MAX`].
    ///
    /// # Errors
    /// What was answered instead.
    pub fn ask(&self, unit: &str, pid: i32, left: Duration) -> Result<(), HealthError> {
        let filled = |text: &str| fill(text, unit, pid);
        match self {
            Health::None => Ok(()),
            Health::Http(url) => {
                let url = filled(url)?;
                let question = Question::Http {
                    url: url.clone(),
                    status: 200,
                };
                answered(question.ask(), url)
            }
            Health::Tcp(address) => {
                let address = filled(address)?;
                let question = Question::Tcp {
                    address: address.clone(),
                };
                answered(question.ask(), address)
            }
            Health::Command(words) => {
                let words: Vec<String> =
                    words.iter().map(|w| filled(w)).collect::<Result<_, _>>()?;
                ask_command(&words, left.clamp(COMMAND_MIN, COMMAND_MAX))
            }
        }
    }
}

fn answered(answer: Result<(), String>, asked: String) -> Result<(), HealthError> {
    answer.map_err(|why| HealthError::Answer { asked, why })
}

fn ask_command(words: &[String], limit: Duration) -> Result<(), HealthError> {
    let (program, arguments) = words.split_first().ok_or(HealthError::Empty)?;
    let mut command = Command::new(program);
    command.args(arguments);
    match run_bounded(command, limit) {
        Ok((true, ..)) => Ok(()),
        Ok((false, out, err)) => {
            let said = if err.trim().is_empty() { out } else { err };
            let said = units::wording::shown(said.trim(), SAID_CHARS_MAX);
            let colon = if said.is_empty() { "" } else { ": " };
            Err(HealthError::Failed {
                program: program.clone(),
                printed: format!("{colon}{said}"),
            })
        }
        Err(Trouble::Missing) => Err(HealthError::NoProgram(program.clone())),
        Err(Trouble::Late) => Err(HealthError::Late {
            program: program.clone(),
            limit,
        }),
        Err(Trouble::Io(error)) => Err(HealthError::Answer {
            asked: program.clone(),
            why: error.to_string(),
        }),
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::None => f.write_str("nothing more is asked"),
            Health::Http(url) => write!(f, "{url} answers 200"),
            Health::Tcp(address) => write!(f, "{address} accepts a connection"),
            Health::Command(words) => write!(f, "`{}` ends with 0", words.join(" ")),
        }
    }
}

/// Puts the instance's own values in place. Braces around anything but a lower-case word are ordinary characters.
fn fill(text: &str, unit: &str, pid: i32) -> Result<String, HealthError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('{') {
        out.push_str(before);
        let word = from.split_once('}');
        match word {
            Some(("instance", after)) => {
                out.push_str(instance_name(unit).unwrap_or(""));
                rest = after;
            }
            Some(("unit", after)) => {
                out.push_str(unit);
                rest = after;
            }
            Some(("pid", after)) => {
                out.push_str(&pid.to_string());
                rest = after;
            }
            Some((word, _)) if !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()) => {
                return Err(HealthError::Placeholder(word.to_owned()));
            }
            _ => {
                out.push('{');
                rest = from;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_as_they_are_typed() {
        assert_eq!(Health::parse("none"), Ok(Health::None));
        let url = "http://127.0.0.1:90{instance}/health";
        assert_eq!(Health::parse(url), Ok(Health::Http(url.to_owned())));
        assert_eq!(
            Health::parse("tcp:127.0.0.1:1"),
            Ok(Health::Tcp("127.0.0.1:1".to_owned()))
        );
        let words = ["test", "-e", "a b"].map(str::to_owned).to_vec();
        assert_eq!(
            Health::parse("command:test -e 'a b'"),
            Ok(Health::Command(words))
        );
        for wrong in [
            "",
            "nothing",
            "http:x",
            "tcp:9000",
            "command:",
            "command:'x",
            "tcp:{port}:1",
        ] {
            assert!(Health::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn placeholders_are_the_instances_own() {
        let filled = fill("90{instance}/{unit}?{pid}{\"a\":1}{", "tor@7.service", 42);
        assert_eq!(filled.as_deref(), Ok("907/tor@7.service?42{\"a\":1}{"));
        assert!(fill("{port}", "a.service", 1).is_err());
    }

    #[test]
    fn a_command_says_why() {
        let health = |text: &str| {
            Health::parse(text)
                .unwrap()
                .ask("a@b.service", 7, COMMAND_MAX)
        };
        assert_eq!(health("command:test b = {instance}"), Ok(()));
        let why = health("command:sh -c 'echo no route >&2; exit 1'")
            .unwrap_err()
            .to_string();
        assert_eq!(why, "sh failed: no route");
        assert!(
            health("command:/nonexistent/x")
                .unwrap_err()
                .to_string()
                .contains("no program")
        );
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let begun = std::time::Instant::now();
        let ask = |text: &str| {
            let Ok(Health::Command(words)) = Health::parse(text) else {
                panic!("{text}");
            };
            ask_command(&words, Duration::from_secs(1)).map_err(|why| why.to_string())
        };
        let killed = Err("sh did not end within 1 s and was killed".to_owned());
        assert_eq!(ask("command:sh -c 'trap \"\" TERM; sleep 30; :'"), killed);
        // What leaves the process group holds our pipes open: it is not waited for.
        assert_eq!(ask("command:sh -c 'setsid sleep 30; :'"), killed);
        assert_eq!(ask("command:sh -c 'sleep 30 &'"), Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

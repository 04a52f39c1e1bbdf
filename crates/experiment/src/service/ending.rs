//! Why a process ended, judged from all that is known of it, and in words.

use std::time::Duration;

use super::exit::Exit;
use crate::happening::Ending;
use units::written;

/// All that is known when a process has ended.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub exit: Option<Exit>,
    /// highwater asked it to end, and why.
    pub asked: Option<String>,
    /// highwater killed it in the place of a cgroup, in words.
    pub over_limit: Option<String>,
    /// Its own cgroup counted an OOM kill, in words.
    pub counted: Option<String>,
    pub has_cgroup: bool,
    /// The kernel counted an OOM kill anywhere on the machine since it started.
    pub counted_on_machine: bool,
}

/// The ending, and what to add to it in brackets.
///
/// The rule: a limit that highwater enforced itself comes first, then its own wish. A SIGKILL that neither explains is
/// an OOM kill when the process's own cgroup counted one; without a cgroup, when the machine did, and then
/// the words say that it is inferred. Any other SIGKILL was somebody else's.
pub fn judge(evidence: &Evidence) -> (Ending, String) {
    let Evidence {
        exit,
        asked,
        over_limit,
        counted,
        ..
    } = evidence.clone();
    if let Some(words) = over_limit {
        return (Ending::OomKilled, words);
    }
    if let Some(why) = asked {
        return (Ending::Stopped, why);
    }
    match exit.unwrap_or(Exit::Unknown) {
        Exit::Code(0) => (Ending::Exited, String::new()),
        exit if exit.is_signal(libc::SIGKILL) => match counted {
            Some(words) => (Ending::OomKilled, words),
            None if !evidence.has_cgroup && evidence.counted_on_machine => {
                let words = "inferred: highwater did not send it, and the kernel counted an OOM kill meanwhile";
                (Ending::OomKilled, words.into())
            }
            None => {
                let words = "by another process: highwater did not send it, and the kernel counted no OOM kill for it";
                (Ending::Killed, words.into())
            }
        },
        Exit::Code(_) | Exit::Signal { .. } => (Ending::Crashed, String::new()),
        Exit::Unknown => (
            Ending::Vanished,
            "how is unknown: it is not our child".into(),
        ),
    }
}

/// `was stopped after 3.2 s, before it was ready: exit code 0 (a guard)`.
pub fn ended_words(
    ending: Ending,
    exit: Exit,
    why: &str,
    age: Duration,
    was_ready: bool,
) -> String {
    let verb = match ending {
        Ending::Stopped => "was stopped",
        Ending::Exited => "ended by itself",
        Ending::Crashed => "crashed",
        Ending::OomKilled => "was killed for its memory",
        Ending::Killed => "was killed",
        Ending::Vanished => "is gone",
    };
    let early = if was_ready {
        ""
    } else {
        ", before it was ready"
    };
    let exit = exit
        .words()
        .map_or(String::new(), |words| format!(": {words}"));
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(" ({why})")
    };
    format!("{verb} after {}{early}{exit}{why}", written::duration(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILLED: Exit = Exit::Signal {
        number: libc::SIGKILL,
        core_dumped: false,
    };

    fn ending(evidence: Evidence) -> Ending {
        judge(&evidence).0
    }

    fn by(exit: Exit) -> Evidence {
        Evidence {
            exit: Some(exit),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_sigkill_is_told_apart_by_who_counted_it() {
        assert_eq!(ending(by(KILLED)), Ending::Killed);
        assert_eq!(
            ending(Evidence {
                counted: Some("x".into()),
                has_cgroup: true,
                ..by(KILLED)
            }),
            Ending::OomKilled
        );
        assert_eq!(
            ending(Evidence {
                counted_on_machine: true,
                ..by(KILLED)
            }),
            Ending::OomKilled
        );
        // A cgroup of its own knows better than the machine's counter.
        let elsewhere = Evidence {
            counted_on_machine: true,
            has_cgroup: true,
            ..by(KILLED)
        };
        assert_eq!(ending(elsewhere), Ending::Killed);
    }

    #[test]
    fn what_highwater_did_comes_first() {
        let asked = Evidence {
            asked: Some("a guard".into()),
            counted: Some("x".into()),
            ..by(KILLED)
        };
        assert_eq!(judge(&asked), (Ending::Stopped, "a guard".into()));
        assert_eq!(
            ending(Evidence {
                over_limit: Some("y".into()),
                ..asked
            }),
            Ending::OomKilled
        );
    }

    #[test]
    fn codes_and_signals() {
        assert_eq!(ending(by(Exit::Code(0))), Ending::Exited);
        assert_eq!(ending(by(Exit::Code(1))), Ending::Crashed);
        assert_eq!(
            ending(by(Exit::Signal {
                number: 11,
                core_dumped: true
            })),
            Ending::Crashed
        );
        // An OOM kill of some child does not turn a crash into one.
        assert_eq!(
            ending(Evidence {
                counted: Some("x".into()),
                ..by(Exit::Code(1))
            }),
            Ending::Crashed
        );
        assert_eq!(ending(by(Exit::Unknown)), Ending::Vanished);
    }

    #[test]
    fn words_hold_what_is_known() {
        let words = ended_words(
            Ending::Crashed,
            Exit::Code(3),
            "",
            Duration::from_millis(1500),
            false,
        );
        assert_eq!(
            words,
            "crashed after 1.5 s, before it was ready: exit code 3"
        );
        let words = ended_words(
            Ending::Vanished,
            Exit::Unknown,
            "why",
            Duration::from_secs(2),
            true,
        );
        assert_eq!(words, "is gone after 2 s (why)");
    }
}

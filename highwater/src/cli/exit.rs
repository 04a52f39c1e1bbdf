//! Exit codes, the same for every verb.

use std::fmt;

/// Done; for `run`: decided, whatever the arms did.
pub const DONE: u8 = 0;
/// A check failed: the arm named `adopt` fails `verify`, or an audit under `--strict`.
pub const FAILED: u8 = 1;
/// The call or the experiment file is wrong.
pub const USAGE: u8 = 2;
/// Not decided yet; the output says what would decide it.
pub const UNDECIDED: u8 = 3;
/// Could not run: something on this machine is missing, in use, forbidden or broken.
pub const COULD_NOT_RUN: u8 = 4;

/// A mistake in what was typed or written, as opposed to the state of the machine.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The code of an error: usage when anything in its chain is a [`Usage`], else "could not run".
pub fn of(error: &anyhow::Error) -> u8 {
    let usage = error.chain().any(|cause| cause.is::<Usage>());
    if usage { USAGE } else { COULD_NOT_RUN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_usage_error_keeps_its_code_under_context() {
        let usage = anyhow::Error::new(Usage("no arms".into())).context("reading x.toml");
        assert_eq!(of(&usage), USAGE);
        let world = Err::<(), _>(std::io::Error::other("disk")).context("writing run.db");
        assert_eq!(of(&world.unwrap_err()), COULD_NOT_RUN);
    }
}

//! What the verbs print. Whoever closes their end (`2>&1 | head`) or fills the disk behind a redirection loses
//! lines, and ends no run by it.

use std::fmt::Arguments;
use std::io::{self, Write};

use anyhow::Context;

/// A line on stderr, as `eprintln!`, which would panic where nobody can read it.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::cli::out::line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// See [`say!`].
pub fn line(words: Arguments<'_>) {
    // A line that cannot be said has nowhere else to be said.
    let _ = writeln!(anstream::stderr().lock(), "{words}");
}

/// To stdout; a reader that closed its end (`| head`) is not an error.
///
/// # Errors
/// What stdout leads to cannot be written (a full disk).
pub fn print(words: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(words.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to stdout")
        }
        _ => Ok(()),
    }
}

//! What a finished command said.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

#[derive(Debug)]
pub struct Said {
    /// 128 and the signal where one ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        let signal = output.status.signal().map(|signal| 128 + signal);
        Said {
            code: output.status.code().or(signal).unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

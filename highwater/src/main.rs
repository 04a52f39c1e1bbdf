//! The command: parse, pick the verb, run its pipeline, end with its exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use highwater::cli::{self, Cli, exit};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version with code 0, mistakes with 2: our own codes.
            let _ = error.print();
            if error.kind() == ErrorKind::UnknownArgument {
                cli::tip(&std::env::args().collect::<Vec<_>>());
            }
            return ExitCode::from(if error.use_stderr() {
                exit::USAGE
            } else {
                exit::DONE
            });
        }
    };
    match cli::dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            cli::complain(&error);
            ExitCode::from(exit::of(&error))
        }
    }
}

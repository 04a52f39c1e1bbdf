//! `highwater completions` and `highwater man`: both from the command's one definition.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::out::print;
use super::{Cli, exit};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater completions bash > ~/.local/share/bash-completion/completions/highwater
  highwater completions fish > ~/.config/fish/completions/highwater.fish")]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: Shell,
}

/// Print the man page, or write one page per command into a folder
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater man | man -l -
  highwater man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write one page per command into this folder
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "highwater", &mut script);
    print_text(script)
}

pub fn man(args: &ManArgs) -> anyhow::Result<u8> {
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        return print_text(page);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command(), folder))
        .with_context(|| format!("writing man pages into {}", folder.display()))?;
    Ok(exit::DONE)
}

/// A man page has no text before its options: the examples stand before the exit codes.
fn command() -> clap::Command {
    fn joined(command: clap::Command) -> clap::Command {
        let part = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
        let parts = [
            part(command.get_before_help()),
            part(command.get_after_help()),
        ];
        let extra: Vec<String> = parts.into_iter().flatten().collect();
        let command = command.mut_subcommands(joined);
        match extra.is_empty() {
            true => command,
            false => command.after_help(extra.join("\n\n")),
        }
    }
    joined(Cli::command())
}

fn print_text(text: Vec<u8>) -> anyhow::Result<u8> {
    print(&String::from_utf8(text)?)?;
    Ok(exit::DONE)
}

//! `highwater completions` and `highwater man`: both from the command's one definition.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::out::print;
use super::{Cli, exit};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  highwater completions bash > ~/.local/share/bash-completion/completions/highwater
  highwater completions fish > ~/.config/fish/completions/highwater.fish")]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: Shell,
}

/// Print the man page, or write one page per verb into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  highwater man | man -l -
  highwater man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Folder that receives one page per verb
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
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print_text(page);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .with_context(|| format!("writing man pages into {}", folder.display()))?;
    Ok(exit::DONE)
}

fn print_text(text: Vec<u8>) -> anyhow::Result<u8> {
    print(&String::from_utf8(text)?)?;
    Ok(exit::DONE)
}

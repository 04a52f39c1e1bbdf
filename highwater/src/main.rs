use clap::Parser;
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}
#[derive(clap::Subcommand)]
enum Verb {
    Allocators(highwater::cli::allocators::AllocatorsArgs),
}
fn main() -> anyhow::Result<std::process::ExitCode> {
    let Verb::Allocators(args) = Cli::parse().verb;
    highwater::cli::allocators::run(&args)
}

//! Where an explanation goes: stdout, and the files that were asked for.

use std::path::Path;

use anyhow::Context;

use super::ExplainArgs;
use crate::cli::exit::Usage;
use crate::cli::out::{self, say};
use report::explain::{Explained, flame_graph, folded, json, pprof, text};

/// Finds out before the observation what would fail after it: a minute of waiting is dear.
pub fn check(args: &ExplainArgs) -> anyhow::Result<()> {
    let files = [&args.pprof, &args.folded, &args.flamegraph];
    for file in files.into_iter().flatten() {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let words = format!(
                "{}: the folder {} is not there",
                file.display(),
                folder.display()
            );
            return Err(Usage(words).into());
        }
    }
    let kind = args.flamegraph.as_ref().map(|file| extension(file));
    if kind.is_some_and(|kind| !matches!(kind.as_str(), "svg" | "html")) {
        return Err(Usage("--flamegraph takes a file that ends in .svg or .html".into()).into());
    }
    if args.duration.is_zero() || args.every.is_some_and(|every| every.is_zero()) {
        return Err(Usage("--duration and --every must be longer than nothing".into()).into());
    }
    Ok(())
}

fn extension(file: &Path) -> String {
    file.extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase()
}

/// Prints the text or the JSON, and writes the files.
pub fn write(args: &ExplainArgs, explained: &Explained) -> anyhow::Result<()> {
    write_files(args, explained)?;
    if args.json {
        let json = serde_json::to_string_pretty(&json(explained))?;
        out::print(&format!("{json}\n"))
    } else {
        out::print(&text(explained))
    }
}

/// An empty profile would look like an empty heap: without stacks no file is written, and that is said.
fn write_files(args: &ExplainArgs, explained: &Explained) -> anyhow::Result<()> {
    if explained.stacks.is_empty() {
        for file in [&args.pprof, &args.folded, &args.flamegraph]
            .into_iter()
            .flatten()
        {
            let file = file.display();
            say!(
                "highwater: {file} is not written: there are no stacks of live blocks (they come from the probe)"
            );
        }
        return Ok(());
    }
    if let Some(file) = &args.pprof {
        save(file, &pprof(explained))?;
    }
    if let Some(file) = &args.folded {
        save(file, folded(&explained.stacks).as_bytes())?;
    }
    if let Some(file) = &args.flamegraph {
        match flame_graph(explained, extension(file) == "html") {
            Ok(bytes) => save(file, &bytes)?,
            Err(why) => say!("highwater: {}: {why}", file.display()),
        }
    }
    Ok(())
}

fn save(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("{} cannot be written", file.display()))
}

//! Reports as files: one, or several in a folder.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Format, ReportArgs};
use crate::cli::out::print;
use record::export::samples_csv;
use record::{ReadOptions, Reader};
use report::pictures::pictures;
use report::{Report, csv, markdown};

/// Where a report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Stdout,
    File(PathBuf),
    /// For what has several files.
    Folder(PathBuf),
}

impl Place {
    /// A folder is one that is there, a path with a slash at its end, or, for what has several files, one without an
    /// ending.
    pub fn of(args: &ReportArgs, format: Format) -> Place {
        let Some(path) = &args.output else {
            return Place::Stdout;
        };
        let slash = path.to_string_lossy().ends_with('/');
        let many = matches!(format, Format::Md | Format::Csv) && args.against.is_none();
        match (many, path.is_dir() || slash) {
            (true, true) => Place::Folder(path.clone()),
            (true, false) if path.extension().is_none() => Place::Folder(path.clone()),
            (false, true) => Place::File(path.join(format!("report.{}", format.ending()))),
            _ => Place::File(path.clone()),
        }
    }

    pub fn write(&self, words: &str) -> anyhow::Result<()> {
        match self {
            Place::Stdout => print(words),
            Place::File(file) => write(file, words.as_bytes()),
            Place::Folder(folder) => {
                make(folder)?;
                write(&folder.join("report.md"), words.as_bytes())
            }
        }
    }
}

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))
}

fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}

/// The document, and its charts as SVG and PNG beside it: `memory.png` in a folder, `NAME-memory.png` beside `NAME.md`.
pub fn markdown(report: &Report, place: &Place) -> anyhow::Result<()> {
    let (folder, file, prefix) = match place {
        Place::File(file) => {
            let stem = file
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            (
                folder,
                file.clone(),
                format!("{}-", stem.unwrap_or_default()),
            )
        }
        Place::Folder(folder) => (folder.clone(), folder.join("report.md"), String::new()),
        Place::Stdout => return print(&markdown::render(report)),
    };
    if !folder.as_os_str().is_empty() {
        make(&folder)?;
    }
    let drawn = pictures(report, &prefix)
        .map_err(anyhow::Error::msg)
        .context("drawing the charts")?;
    for picture in &drawn {
        let png = picture
            .png()
            .map_err(anyhow::Error::msg)
            .context("drawing the charts")?;
        write(
            &folder.join(format!("{}.svg", picture.name)),
            picture.svg.as_bytes(),
        )?;
        write(&folder.join(format!("{}.png", picture.name)), &png)?;
    }
    write(&file, markdown::render_with(report, &drawn).as_bytes())
}

/// Samples, events, diagnostics, groups and arms, a file each.
pub fn csv(report: &Report, reader: &Reader, folder: &Path) -> anyhow::Result<()> {
    make(folder)?;
    let file = folder.join("samples.csv");
    let made = File::create(&file).with_context(|| format!("writing {}", file.display()))?;
    let mut out = BufWriter::new(made);
    samples(reader, &mut out)?;
    out.flush()
        .with_context(|| format!("writing {}", file.display()))?;
    let tables = [
        ("events.csv", csv::events(report)),
        ("diagnostics.csv", csv::diagnostics(report)),
        ("groups.csv", csv::groups(report)),
        ("arms.csv", csv::render(report)),
    ];
    for (name, text) in tables {
        write(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Every sample; the record is read as the lines are written.
pub fn samples(reader: &Reader, out: &mut dyn Write) -> anyhow::Result<()> {
    for line in samples_csv(reader, &ReadOptions::default())? {
        out.write_all(line?.as_bytes())?;
    }
    Ok(())
}

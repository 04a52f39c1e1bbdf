//! A whole C library with its own loader, out of a package.

use std::fs;

use anyhow::{Context, Result};

use super::copy::find;
use super::{Built, Work};
use crate::recipe::LoaderOut;

pub fn build(step: &LoaderOut, work: &mut Work<'_>) -> Result<Built> {
    let folder = find_folder(step, work)?;
    let named = |name: &str| folder.join(name);
    let (library, loader) = (named(&step.library), named(&step.loader));
    let mut companions = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        // Plug-ins for character sets and audits stay away: programs open those of the system.
        if path.is_file() && path != library && path != loader {
            companions.push(path);
        }
    }
    companions.sort();
    Ok(Built {
        library,
        companions,
        loader: Some(loader),
    })
}

fn find_folder(step: &LoaderOut, work: &Work<'_>) -> Result<std::path::PathBuf> {
    let library = find(work.source, &format!("{}/{}", step.folder, step.library))?;
    let folder = library.parent().context("a library lies in a folder")?;
    Ok(folder.to_owned())
}

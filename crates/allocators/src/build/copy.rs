//! A library that the package already contains.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Built, Work};
use crate::recipe::CopyOut;

pub fn build(copy: &CopyOut, work: &mut Work<'_>) -> Result<Built> {
    let companions = copy.companions.iter().map(|file| find(work.source, file));
    Ok(Built {
        companions: companions.collect::<Result<_>>()?,
        library: find(work.source, &copy.file)?,
        loader: None,
    })
}

/// The one file that a pattern means, links inside the package followed.
pub(super) fn find(root: &Path, pattern: &str) -> Result<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        let mut next = Vec::new();
        for folder in &found {
            next.extend(matching(folder, part)?);
        }
        found = next;
    }
    let [file] = &found[..] else {
        bail!(
            "{} files of the package match {pattern}, expected one",
            found.len()
        );
    };
    let file = file
        .canonicalize()
        .with_context(|| format!("following {}", file.display()))?;
    if !file.starts_with(root.canonicalize()?) {
        bail!("{pattern} leads out of the package");
    }
    Ok(file)
}

fn matching(folder: &Path, part: &str) -> Result<Vec<PathBuf>> {
    let Some((start, end)) = part.split_once('*') else {
        let path = folder.join(part);
        return Ok(path.exists().then_some(path).into_iter().collect());
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let long_enough = name.len() >= start.len() + end.len();
        if long_enough && name.starts_with(start) && name.ends_with(end) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_one_file_of_the_package() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libx.so.2.1"), "").unwrap();
        std::os::unix::fs::symlink("libx.so.2.1", lib.join("libx.so.2")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", lib.join("libout.so")).unwrap();
        let found = find(root.path(), "usr/lib/*/libx.so.2").unwrap();
        assert_eq!(found.file_name().unwrap(), "libx.so.2.1");
        for (pattern, words) in [
            ("usr/lib/*/libx*", "2 files"),
            ("usr/lib/*/liby.so", "0 files"),
            ("usr/lib/*/libout.so", "leads out"),
        ] {
            let error = find(root.path(), pattern).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

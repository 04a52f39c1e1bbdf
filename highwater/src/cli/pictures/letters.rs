//! Fonts of this machine for letters that our own lack: a process may be called 服务一.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Letters that are looked for: a font that has one of a script has the others.
const ASKED_MAX: usize = 16;
/// A larger file is no font to be drawn with.
const FONT_BYTES_MAX: u64 = 64 << 20;

/// The fonts that fontconfig names for these letters; none where it is not installed.
pub fn fonts_with(letters: &BTreeSet<char>) -> Vec<Vec<u8>> {
    let files: BTreeSet<PathBuf> = letters.iter().take(ASKED_MAX).filter_map(font_of).collect();
    let small = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|m| m.len() <= FONT_BYTES_MAX);
    let files = files.into_iter().filter(small);
    files.filter_map(|file| std::fs::read(file).ok()).collect()
}

fn font_of(letter: &char) -> Option<PathBuf> {
    let charset = format!(":charset={:x}", u32::from(*letter));
    let asked = Command::new("fc-match")
        .args(["-f", "%{file}", &charset])
        .output();
    let said = asked.ok().filter(|said| said.status.success())?;
    let path = String::from_utf8(said.stdout).ok()?;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// What is said of letters that no font has.
pub fn words(lacking: &BTreeSet<char>) -> String {
    const SHOWN: usize = 8;
    let shown: String = lacking.iter().take(SHOWN).collect();
    let more = if lacking.len() > SHOWN { " ..." } else { "" };
    format!(
        "no font of this machine has {shown}{more}: boxes in the picture; an .svg uses the fonts \
         of its viewer"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_that_lack_are_named_and_not_all_of_many() {
        let few = BTreeSet::from(['服', '务']);
        assert!(words(&few).contains("has 务服:"), "{}", words(&few));
        let many: BTreeSet<char> = ('一'..='丠').collect();
        assert!(words(&many).contains(" ...: boxes"), "{}", words(&many));
    }
}

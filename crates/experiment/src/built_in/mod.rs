//! Files that a released highwater has inside: the probe and the programs that preload something, in a form for each C
//! library. In: the C library and a name; out: a path, of the file unpacked, or of the one beside this program.

mod unpack;

use std::io::Read;
use std::path::{Path, PathBuf};

use lzma_rust2::Lzma2Reader;

pub use unpack::UnpackError;

/// The C library that a form is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForLibc {
    /// 2.17 and later.
    Glibc,
    Musl,
}

impl ForLibc {
    fn word(self) -> &'static str {
        match self {
            ForLibc::Glibc => "glibc",
            ForLibc::Musl => "musl",
        }
    }
}

/// All that is linked with one C library.
#[derive(Debug)]
struct Form {
    libc: &'static str,
    /// Name and bytes of each file.
    files: &'static [(&'static str, usize)],
    /// One after the other, as an LZMA2 stream with a dictionary of so many bytes.
    packed: &'static [u8],
    dictionary_bytes: u32,
}

impl Form {
    /// The content of its files. `None`: it is damaged.
    fn content(&self) -> Option<Vec<u8>> {
        let bytes = self.files.iter().map(|(_, bytes)| bytes).sum();
        let mut content = vec![0; bytes];
        Lzma2Reader::new(self.packed, self.dictionary_bytes, None)
            .read_exact(&mut content)
            .ok()?;
        Some(content)
    }

    /// Name and content of each file.
    fn cut<'a>(&self, mut content: &'a [u8]) -> Vec<(&'static str, &'a [u8])> {
        let mut cut = |&(name, bytes): &(&'static str, usize)| {
            let (file, rest) = content.split_at(bytes);
            content = rest;
            (name, file)
        };
        self.files.iter().map(&mut cut).collect()
    }
}

/// None in a build that has them beside it.
static FORMS: &[Form] = include!(concat!(env!("OUT_DIR"), "/forms.rs"));

/// Whether this program brings its files with it.
pub fn is_complete() -> bool {
    !FORMS.is_empty()
}

/// The unpacked file for a C library; `None`: this program does not bring it.
///
/// # Errors
/// There is no place where it can be unpacked to, or this program is damaged.
pub fn unpacked(libc: ForLibc, name: &str) -> Result<Option<PathBuf>, UnpackError> {
    let Some(form) = FORMS.iter().find(|form| form.libc == libc.word()) else {
        return Ok(None);
    };
    if !form.files.iter().any(|(there, _)| *there == name) {
        return Ok(None);
    }
    let content = form.content().ok_or(UnpackError::Damaged)?;
    let files = form.cut(&content);
    unpack::unpack(libc.word(), &files).map(|folder| Some(folder.join(name)))
}

/// The file beside this program, as a build leaves it or as an installation with a `lib` folder has it.
pub fn beside(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let folder = exe.parent()?;
    // A test binary lies one folder deeper than what its build makes.
    let places: [&Path; 3] = [
        Path::new(""),
        Path::new("../lib/highwater"),
        Path::new(".."),
    ];
    let mut files = places.iter().map(|place| folder.join(place).join(name));
    files.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lzma_rust2::{Lzma2Options, Lzma2Writer};

    use super::*;

    #[test]
    fn files_come_out_as_they_were_packed() {
        let (first, second) = ([7; 70_000], b"program");
        let mut writer = Lzma2Writer::new(Vec::new(), Lzma2Options::with_preset(9));
        writer.write_all(&first).unwrap();
        writer.write_all(second).unwrap();
        let packed: &[u8] = writer.finish().unwrap().leak();
        let mut form = Form {
            libc: "glibc",
            files: &[("a.so", 70_000), ("program", 7)],
            packed,
            dictionary_bytes: 64 << 20,
        };
        let content = form.content().unwrap();
        assert_eq!(
            form.cut(&content),
            [("a.so", &first[..]), ("program", second)]
        );
        form.packed = &packed[..packed.len() - 8];
        assert_eq!(form.content(), None, "cut");
    }
}

//! What a call in front of a return address calls.
//!
//! A function that ends in a call (`return malloc(n)`) jumps instead of calling, and has no frame of its own: the
//! stack tells its caller and what it jumped to. The caller's code tells who was called.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::smaps::Area;
use observe::fact::open_file;
use symbols::call_site::{CALL_BYTES, Target, target_before};

/// Reads the code of mapped files.
#[derive(Debug, Default)]
pub struct Calls {
    files: HashMap<String, Option<File>>,
}

impl Calls {
    /// Where the direct call goes that returns to `address`, in `area`; `paths`: where the area's file may be read.
    pub fn target(&mut self, area: &Area, address: u64, paths: &[PathBuf]) -> Option<u64> {
        let file = self.files.entry(area.name.clone()).or_insert_with(|| {
            let mut files = paths.iter().filter_map(|path| open_file(path).ok());
            files.next()
        });
        let from = address
            .checked_sub(CALL_BYTES as u64)
            .filter(|at| *at >= area.start)?;
        let mut code = [0; CALL_BYTES];
        let at = from - area.start + area.offset;
        file.as_ref()?.read_exact_at(&mut code, at).ok()?;
        match target_before(&code, address)? {
            Target::Function(called) => Some(called),
            Target::Slot(_) => None,
        }
    }
}

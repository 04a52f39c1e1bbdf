//! Unwind tables of files, each kept once for all watches of this program, as long as one of them has it.

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use observe::table::Table;

pub type Bytes = Arc<[u8]>;

/// A file as it was when it was looked at: device, inode, and when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
    written: (i64, i64),
}

impl FileId {
    pub fn of(path: &str) -> Option<FileId> {
        let file = std::fs::metadata(path).ok()?;
        Some(FileId {
            device: file.dev(),
            inode: file.ino(),
            written: (file.mtime(), file.mtime_nsec()),
        })
    }
}

type Key = (FileId, &'static str);

/// The section that some watch has already, or what `read` gives.
pub fn shared(key: Key, read: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
    static KEPT: Mutex<Option<Table<Key, Weak<[u8]>>>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(bytes) = kept.get(&key).and_then(Weak::upgrade) {
        return Some(bytes);
    }
    kept.retain(|_, bytes| bytes.strong_count() > 0);
    let bytes = read()?;
    kept.insert(key, Arc::downgrade(&bytes));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_once_while_somebody_has_it() {
        let here = std::env::current_exe().unwrap();
        let id = FileId::of(here.to_str().unwrap()).unwrap();
        let key = (id, ".a_test");
        let read = || Some(Bytes::from([1, 2, 3]));
        let one = shared(key, read).unwrap();
        let other = shared(key, || panic!("read again")).unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        drop((one, other));
        assert_eq!(shared(key, || None), None, "dropped with the last");
    }
}

//! A thread for each connection; a request appends an entry to a journal with four small writes. --fault fsync: each
//! write is followed by fdatasync. Healthy: no request syncs.
use service::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[inline(never)]
fn append_entry(file: &File, syncs: bool) {
    for part in 0..4 {
        file.write_all_at(&[7; 500], part * 500).unwrap();
        if syncs {
            file.sync_data().unwrap();
        }
    }
}

fn main() {
    let settings = read_settings(900, 200, 7);
    let (file, listener) = (Arc::new(settings.create_file("journal")), settings.listen());
    settings.start_load("keep");
    serve_by_threads(&listener, "connection", move |_| {
        burn_us(settings.work_us);
        append_entry(&file, settings.is("fsync"));
    });
}

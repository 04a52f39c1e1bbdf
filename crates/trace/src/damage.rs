//! What of a trace is missing or damaged.

/// Counts of what could not be read. All zero: the trace is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Bytes between chunks that are neither a chunk nor zero.
    pub foreign_bytes: u64,
    /// Bytes that are missing at the end of the file.
    pub missing_bytes: u64,
    /// Chunks that end behind the end of the file.
    pub cut_chunks: u64,
    /// Chunks whose checksum is another one: their events are left out.
    pub checksums: u64,
    /// Chunks with an event that cannot be decoded: the rest of the chunk is left out.
    pub undecodable: u64,
    /// Chunks of a thread that are missing between two others.
    pub missing_chunks: u64,
    /// Events that the chunks' headers count and that could not be read.
    pub lost_events: u64,
}

impl Damage {
    /// Whether anything is missing.
    pub fn is_any(&self) -> bool {
        *self != Damage::default()
    }

    /// One line for each kind.
    pub fn lines(&self) -> Vec<String> {
        let kinds = [
            (self.foreign_bytes, "bytes that are no chunk"),
            (self.missing_bytes, "bytes missing at the end of the file"),
            (self.cut_chunks, "chunks that the end of the file cuts"),
            (self.checksums, "chunks with a wrong checksum, left out"),
            (
                self.undecodable,
                "chunks with an undecodable event, left out from there",
            ),
            (
                self.missing_chunks,
                "chunks missing between others of their thread",
            ),
            (self.lost_events, "events lost by that"),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        kinds
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }

    /// Adds what another part of the reader found.
    pub fn add(&mut self, other: &Damage) {
        self.foreign_bytes += other.foreign_bytes;
        self.missing_bytes += other.missing_bytes;
        self.cut_chunks += other.cut_chunks;
        self.checksums += other.checksums;
        self.undecodable += other.undecodable;
        self.missing_chunks += other.missing_chunks;
        self.lost_events += other.lost_events;
    }
}

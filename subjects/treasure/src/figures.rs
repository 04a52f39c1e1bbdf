//! What the server counts, and its text for /metrics.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a connection or a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Bytes that are no frame.
    Broken,
    /// No hello, or nothing at all, for too long.
    Silent,
    /// Did not read its answers in time.
    SlowReader,
    /// The log could not be written: unanswered, to be sent again.
    NotStored,
    /// No descriptor left.
    NoDescriptor,
}

const REASONS: [(&str, Dropped); 5] = [
    ("broken", Dropped::Broken),
    ("silent", Dropped::Silent),
    ("slow_reader", Dropped::SlowReader),
    ("not_stored", Dropped::NotStored),
    ("no_descriptor", Dropped::NoDescriptor),
];

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: AtomicU64,)*
            dropped: [AtomicU64; REASONS.len()],
            /// Above 0 since the last write of the log failed.
            pub log_failing: AtomicU64,
        }

        impl Figures {
            fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.load(Relaxed))),*].into_iter()
            }
        }
    };
}

figures!(
    /// Taps that were given a new coin.
    taps,
    /// Taps that were repeated and got the same coin.
    repeated,
    /// Taps and hellos that were refused.
    refused,
    /// Payloads drawn, of which a tap gives one.
    drawn,
    /// Sessions opened.
    opened,
    /// Sessions that expired.
    expired,
    /// Connections accepted.
    accepted,
    /// Connections ended.
    ended,
    /// Bytes written to the log.
    log_bytes,
    /// Writes of the log.
    log_writes,
    /// Writes of the log that failed.
    log_errors,
    /// Snapshots written.
    snapshots,
    /// Snapshots that failed.
    snapshot_errors,
);

impl Figures {
    pub fn drop_one(&self, why: Dropped) {
        self.drop_some(why, 1);
    }

    pub fn drop_some(&self, why: Dropped, count: usize) {
        self.dropped[why as usize].fetch_add(count as u64, Relaxed);
    }

    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why as usize].load(Relaxed)
    }

    /// A write of the log of so many bytes, and whether it succeeded.
    pub fn logged(&self, bytes: usize, is_stored: bool) {
        self.log_writes.fetch_add(1, Relaxed);
        if is_stored {
            self.log_bytes.fetch_add(bytes as u64, Relaxed);
        } else {
            self.log_errors.fetch_add(1, Relaxed);
        }
        if self.log_failing.load(Relaxed) != u64::from(!is_stored) {
            self.log_failing.store(u64::from(!is_stored), Relaxed);
        }
    }

    pub fn add(&self, counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// Connections now. Ends are read first: one that comes and goes meanwhile must not make it negative.
    pub fn open(&self) -> u64 {
        let ended = self.ended.load(Relaxed);
        self.accepted.load(Relaxed).saturating_sub(ended)
    }

    /// OpenMetrics text, the allocator's figures included.
    pub fn write(&self, sessions: usize, out: &mut impl Write) -> fmt::Result {
        for (name, value) in self.counters() {
            writeln!(
                out,
                "# TYPE treasure_{name} counter\ntreasure_{name}_total {value}"
            )?;
        }
        writeln!(out, "# TYPE treasure_dropped counter")?;
        for (reason, why) in REASONS {
            let count = self.dropped(why);
            writeln!(out, "treasure_dropped_total{{reason=\"{reason}\"}} {count}")?;
        }
        writeln!(
            out,
            "# TYPE treasure_sessions gauge\ntreasure_sessions {sessions}"
        )?;
        let open = self.open();
        writeln!(
            out,
            "# TYPE treasure_connections gauge\ntreasure_connections {open}"
        )?;
        highwater_alloc::openmetrics(out)?;
        writeln!(out, "# EOF")
    }
}

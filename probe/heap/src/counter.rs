//! The counters of a probe's header.

/// The place of a counter of a probe's header.
macro_rules! counter {
    ($probe:expr, $name:ident) => {
        // A field of the header, which lives as long as the probe.
        #[allow(unused_unsafe, reason = "some callers stand in an unsafe block")]
        // SAFETY: a word of the header, which lives as long as the mapping; its users are atomics.
        unsafe {
            &raw mut (*$probe.header).counters.$name
        }
    };
}

pub(crate) use counter;

//! How much a watch may hold.

/// How much a watch may hold in rings: one that is watched alone, or one of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    One,
    Many,
}

//! The supervisor itself is killed: its processes go with it, or are found again.

//! A map for keys that nobody chooses to harm us.

/// By threads, places and the like, which nobody chooses to harm us: hashed cheaply, and always in the same order.
pub type Table<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

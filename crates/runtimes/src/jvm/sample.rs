//! A live object with the way from a root to it: of a recording, or read from outside.

use symbols::frame::Frame;

/// How an object refers to the next one on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    Field(String),
    Item,
    /// Objects between them are left out.
    Unknown,
}

/// An object on a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub type_name: String,
    /// What the JVM says of it: `Class Name: App`, `Thread Name: main`, `Size: 9`.
    pub description: String,
    /// How the object before it refers to it; of the first, [`Via::Unknown`].
    pub via: Via,
}

/// An object that was alive when the recording was dumped, or the heap read.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Objects that it was drawn from, one of a recording.
    pub stands_for: u64,
    /// On the way, the first object of a kind that became more; `None`: not known.
    pub first_new: Option<usize>,
    /// From the root to the object itself, which is the last. One alone: the way is not known.
    pub way: Vec<Link>,
    /// `Stack Variable`, `Local JNI Handle`, ...; `None`: no root is known.
    pub root: Option<String>,
    /// `Thread Name: main`
    pub root_description: String,
    /// Of its allocation, innermost first.
    pub frames: Vec<Frame>,
}

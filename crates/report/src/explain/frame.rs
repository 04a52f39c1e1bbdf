//! A frame of a stack as JSON.

use serde_json::{Map, Value};

use memory::rank::frame_name;
use symbols::frame::Frame;

pub fn frame_json(frame: &Frame) -> Value {
    let mut row = Map::new();
    row.insert("function".into(), frame_name(frame).into());
    row.insert("file".into(), frame.file.clone().into());
    row.insert("line".into(), frame.line.into());
    row.insert("module".into(), frame.module.clone().into());
    row.insert("offset".into(), frame.offset.into());
    if frame.inlined {
        row.insert("inlined".into(), true.into());
    }
    if frame.left {
        row.insert("tail_call".into(), true.into());
    }
    row.into()
}

//! A heap profile for pprof: gzip around the protocol buffer `perftools.profiles.Profile`.
//!
//! The messages are declared here with their field numbers, from the published profile.proto; only
//! the fields that are written.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{Explained, StackBytes};
use memory::rank::frame_name;
use symbols::frame::Frame;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The live heap as a gzipped profile: inuse_objects, inuse_space, and growth over the window.
pub fn pprof(explained: &Explained) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text("");
    let bytes = writer.text("bytes");
    let count = writer.text("count");
    let names = [
        ("inuse_objects", count),
        ("inuse_space", bytes),
        ("growth_space", bytes),
    ];
    for (name, unit) in names {
        let kind = writer.text(name);
        writer.profile.sample_type.push(ValueType { kind, unit });
    }
    writer.profile.default_sample_type = writer.text("inuse_space");
    let kind = writer.text("space");
    writer.profile.period_type = Some(ValueType { kind, unit: bytes });
    writer.profile.duration_nanos = (explained.case.observed_s * 1e9) as i64;
    let comment = writer.text(&explained.verdict.sentence);
    writer.profile.comment.push(comment);
    // The first mapping is taken for the program.
    if let Some(module) = program(&explained.stacks) {
        writer.mapping(module);
    }
    for stack in &explained.stacks {
        writer.sample(stack);
    }
    gzip(&writer.profile.encode_to_vec())
}

/// The file in which a process begins.
fn program(stacks: &[StackBytes]) -> Option<&str> {
    let outermost = stacks.iter().filter_map(|stack| stack.frames.last());
    let mut starts = outermost.filter(|frame| frame.function.as_deref() == Some("_start"));
    starts.next().map(|frame| frame.module.as_str())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = gzip.write_all(bytes);
    gzip.finish().unwrap_or_default()
}

#[derive(Default)]
struct Writer {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    mappings: HashMap<String, u64>,
    locations: HashMap<(String, u64, String), u64>,
}

impl Writer {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let index = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn sample(&mut self, stack: &StackBytes) {
        let location_id = stack
            .frames
            .iter()
            .map(|frame| self.location(frame))
            .collect();
        let value = vec![
            stack.blocks.round() as i64,
            stack.bytes.round() as i64,
            stack.grown_bytes.round() as i64,
        ];
        self.profile.sample.push(Sample { location_id, value });
    }

    /// One location per frame: inlined functions are frames of their own here.
    fn location(&mut self, frame: &Frame) -> u64 {
        let name = frame_name(frame);
        let key = (frame.module.clone(), frame.offset, name.clone());
        if let Some(&known) = self.locations.get(&key) {
            return known;
        }
        let function_id = self.function(&name, frame.file.as_deref().unwrap_or(""));
        let id = self.profile.location.len() as u64 + 1;
        let line = Line {
            function_id,
            line: i64::from(frame.line.unwrap_or(0)),
        };
        let mapping_id = self.mapping(&frame.module);
        let location = Location {
            id,
            mapping_id,
            address: frame.offset,
            line: vec![line],
        };
        self.profile.location.push(location);
        self.locations.insert(key, id);
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        if let Some(&known) = self.functions.get(&key) {
            return known;
        }
        let (text, filename) = (self.text(name), self.text(file));
        let id = self.profile.function.len() as u64 + 1;
        self.profile.function.push(Function {
            id,
            name: text,
            system_name: text,
            filename,
        });
        self.functions.insert(key, id);
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        if let Some(&known) = self.mappings.get(module) {
            return known;
        }
        let filename = self.text(module);
        let id = self.profile.mapping.len() as u64 + 1;
        self.profile.mapping.push(Mapping {
            id,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        });
        self.mappings.insert(module.to_owned(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_functions_are_written_once() {
        let frame = |name: &str, offset| Frame {
            function: Some(name.into()),
            module: "/srv/app".into(),
            offset,
            ..Frame::default()
        };
        let mut writer = Writer::default();
        writer.text("");
        let stack = |frames| StackBytes {
            frames,
            addresses: Vec::new(),
            bytes: 10.4,
            blocks: 2.0,
            grown_bytes: -3.0,
        };
        writer.sample(&stack(vec![frame("leak", 1), frame("main", 2)]));
        writer.sample(&stack(vec![frame("other", 3), frame("main", 2)]));
        let profile = Profile::decode(&*writer.profile.encode_to_vec()).unwrap();
        assert_eq!((profile.function.len(), profile.location.len()), (3, 3));
        assert_eq!(profile.sample[0].location_id, [1, 2]);
        assert_eq!(profile.sample[1].location_id, [3, 2]);
        assert_eq!(profile.sample[0].value, [2, 10, -3]);
        assert_eq!(profile.string_table[0], "");
    }
}

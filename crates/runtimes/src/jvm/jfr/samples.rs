//! Live objects of a recording (`jdk.OldObjectSample`): where each was allocated, and the way from a root to it.

use symbols::frame::Frame;

use super::chunk::{Chunk, Value, split};
use crate::jvm::histogram::written_name;
use crate::jvm::sample::{Link, Sample, Via};
use crate::jvm::text::bounded;
use crate::jvm::threads::JAVA_MODULE;

/// The JVM keeps 256 samples where nothing else is configured.
const SAMPLES_MAX: usize = 4_096;
const CHUNKS_MAX: usize = 64;
/// HotSpot reports 200 objects of a way: the first hundred and the last.
const WAY_MAX: usize = 256;
const FRAMES_MAX: usize = 64;

const WANTED: [&str; 14] = [
    "String",
    "Class",
    "Symbol",
    "Method",
    "StackTrace",
    "StackFrame",
    "OldObject",
    "Reference",
    "OldObjectArray",
    "OldObjectField",
    "OldObjectGcRoot",
    "OldObjectRootSystem",
    "OldObjectRootType",
    "Thread",
];

/// All samples of a recording. `None`: it is not in the format.
pub fn parse_samples(mut bytes: &[u8]) -> Option<Vec<Sample>> {
    let mut samples = Vec::new();
    for _ in 0..CHUNKS_MAX {
        if bytes.is_empty() {
            break;
        }
        let (first, rest) = split(bytes)?;
        bytes = rest;
        let mut chunk = Chunk::read(first, &WANTED)?;
        let events = chunk.events("jdk.OldObjectSample");
        let left = SAMPLES_MAX.saturating_sub(samples.len());
        samples.extend(events.iter().take(left).map(|event| sample(&chunk, event)));
    }
    Some(samples)
}

fn sample(chunk: &Chunk, event: &Value) -> Sample {
    let root = chunk.field(event, "root");
    let text = |name: &str| chunk.text(chunk.field(root, name)).unwrap_or_default();
    let kind = text("type");
    Sample {
        stands_for: 1,
        first_new: None,
        way: way(chunk, chunk.field(event, "object")),
        root: (!kind.is_empty()).then_some(kind),
        root_description: bounded(text("description")),
        frames: frames(chunk, chunk.field(event, "stackTrace")),
    }
}

fn way(chunk: &Chunk, object: &Value) -> Vec<Link> {
    let (mut way, mut at) = (Vec::new(), object);
    while way.len() < WAY_MAX && matches!(at, Value::Fields(..)) {
        let referrer = chunk.field(at, "referrer");
        let parent = chunk.field(referrer, "object");
        let field = chunk.field(chunk.field(referrer, "field"), "name");
        let skipped = matches!(chunk.field(referrer, "skip"), Value::Number(1..));
        let via = match (chunk.text(field), chunk.field(referrer, "array")) {
            (_, _) if skipped => Via::Unknown,
            (Some(name), _) => Via::Field(bounded(name)),
            (None, Value::Fields(..)) => Via::Item,
            _ => Via::Unknown,
        };
        let description = chunk.text(chunk.field(at, "description"));
        way.push(Link {
            type_name: class(chunk, chunk.field(at, "type")),
            description: bounded(description.unwrap_or_default()),
            via,
        });
        at = parent;
    }
    way.reverse();
    way
}

/// As users write it: `java.util.HashMap$Node[]`.
fn class(chunk: &Chunk, class: &Value) -> String {
    let name = chunk.text(chunk.field(class, "name")).unwrap_or_default();
    bounded(written_name(&name.replace('/', ".")))
}

fn frames(chunk: &Chunk, trace: &Value) -> Vec<Frame> {
    let Value::List(frames) = chunk.field(trace, "frames") else {
        return Vec::new();
    };
    let frame = |frame: &Value| {
        let method = chunk.field(frame, "method");
        let class = class(chunk, chunk.field(method, "type"));
        let name = chunk.text(chunk.field(method, "name")).unwrap_or_default();
        let line = match chunk.field(frame, "lineNumber") {
            Value::Number(line @ 1..) => u32::try_from(*line).ok(),
            _ => None,
        };
        Frame {
            module: JAVA_MODULE.into(),
            function: Some(bounded(format!("{class}.{name}"))),
            file: source_of(&class),
            line,
            ..Frame::default()
        }
    };
    frames.iter().take(FRAMES_MAX).map(frame).collect()
}

/// A recording has no names of files; a public class stands in one of its own name: `App$Session` is in `App.java`.
fn source_of(class: &str) -> Option<String> {
    let outer = class.rsplit('.').next()?.split('$').next()?;
    (!outer.is_empty()).then(|| format!("{outer}.java"))
}

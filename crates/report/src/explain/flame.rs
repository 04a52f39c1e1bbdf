//! The flame graph of the live heap: its stacks as a tree, in which every frame is as wide as what stands on it.

use std::collections::BTreeMap;

use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};

use super::folded::plain;
use super::{Explained, StackBytes};
use memory::brief::brief;
use memory::rank::frame_name;

/// Of the whole width: 4 pixels of 1200. Narrower frames have no readable name, and the import stacks of a Python
/// program, each that narrow and a hundred frames deep, would stand as an empty field above everything else.
const NARROW_SHARE: f64 = 1.0 / 300.0;
/// Frames that are too narrow, together, so that what stands on a frame still adds up to it.
const NARROWER: &str = "(narrower)";
/// Frames above each other that are drawn; what is deeper counts as the last.
const DEPTH_MAX: usize = 512;

/// Inside a page an SVG that gives no width of its own is 300 pixels wide.
const STYLE: &str = "body { font: 16px/1.4 sans-serif; margin: 1.5rem; } svg { width: 100%; }";

/// An SVG file, or with `html` a page around it. An error when there is nothing to draw.
pub fn flame_graph(explained: &Explained, html: bool) -> Result<Vec<u8>, String> {
    let title = format!("live heap of {}", plain(&explained.command));
    let svg = draw(&lines(&explained.stacks), &title)?;
    if !html {
        return Ok(svg);
    }
    let svg = String::from_utf8_lossy(&svg).into_owned();
    // Inside a page an SVG needs no XML header.
    let from = svg.find("<svg").unwrap_or(0);
    let page = maud::html! {
        (maud::DOCTYPE)
        html {
            head {
                meta charset="utf-8";
                title { (title) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { (explained.verdict.word()) }
                p { (explained.verdict.sentence) }
                p { "Next: " (explained.verdict.next_step) }
                (maud::PreEscaped(&svg[from..]))
            }
        }
    };
    Ok(page.into_string().into_bytes())
}

/// The lines as an SVG, side by side in their order.
fn draw(lines: &[String], title: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The outermost frames above: a picture higher than the window begins with those that are wide.
    options.direction = Direction::Inverted;
    options.title = title.to_owned();
    options.count_name = "bytes".to_owned();
    options.deterministic = true;
    // In the order of the tree: sorted as text, `f.cold` comes between `f` itself and what `f` calls, and tears `f`.
    // Of a chart alone the order may be any; it is read from the end.
    options.flame_chart = true;
    let mut svg = Vec::new();
    from_lines(
        &mut options,
        lines.iter().rev().map(String::as_str),
        &mut svg,
    )
    .map_err(|error| format!("no flame graph can be drawn: {error} (no live samples?)"))?;
    Ok(svg)
}

/// A frame, with what was allocated in it and in what it called.
#[derive(Default)]
struct Node {
    bytes: f64,
    above: BTreeMap<String, Node>,
}

/// Folded stacks of what is wide enough to be seen, whatever is narrower as one frame.
fn lines(stacks: &[StackBytes]) -> Vec<String> {
    let mut root = Node::default();
    for stack in stacks.iter().filter(|stack| stack.bytes >= 1.0) {
        // A bar has room for the beginning of a short name.
        let names = stack.frames.iter().rev();
        let names = names.map(|frame| plain(&brief(&frame_name(frame))));
        let unknown = stack
            .frames
            .is_empty()
            .then(|| "(unknown stack)".to_owned());
        root.add(names.chain(unknown).take(DEPTH_MAX), stack.bytes);
    }
    let mut lines = Vec::new();
    root.fold("", root.bytes * NARROW_SHARE, &mut lines);
    lines
}

impl Node {
    fn add(&mut self, path: impl Iterator<Item = String>, bytes: f64) {
        let mut node = self;
        node.bytes += bytes;
        for name in path {
            node = node.above.entry(name).or_default();
            node.bytes += bytes;
        }
    }

    /// The lines of this frame, whose stack is `path`.
    fn fold(&self, path: &str, narrow: f64, lines: &mut Vec<String>) {
        let join = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path};{name}"),
        };
        let (wide, narrower): (Vec<_>, Vec<_>) = self
            .above
            .iter()
            .partition(|(_, node)| node.bytes >= narrow);
        let above: f64 = self.above.values().map(|node| node.bytes).sum();
        push(lines, path, self.bytes - above);
        for (name, node) in wide {
            node.fold(&join(name), narrow, lines);
        }
        let rest = narrower.iter().map(|(_, node)| node.bytes).sum();
        push(lines, &join(NARROWER), rest);
    }
}

fn push(lines: &mut Vec<String>, path: &str, bytes: f64) {
    if bytes >= 1.0 {
        lines.push(format!("{path} {bytes:.0}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbols::frame::Frame;

    fn stack(innermost_first: &[&str], bytes: f64) -> StackBytes {
        let frame = |name: &&str| Frame {
            function: Some((*name).into()),
            ..Frame::default()
        };
        StackBytes {
            frames: innermost_first.iter().map(frame).collect(),
            addresses: Vec::new(),
            bytes,
            blocks: 1.0,
            grown_bytes: 0.0,
        }
    }

    #[test]
    fn narrow_frames_are_one_and_nothing_is_missing() {
        let mut stacks = vec![stack(&["leak", "main"], 96_000.0)];
        for module in 0..40 {
            let deep: Vec<String> = (0..100).map(|at| format!("{module}.{at}")).collect();
            let mut frames: Vec<&str> = deep.iter().map(String::as_str).collect();
            frames.extend(["load", "main"]);
            stacks.push(stack(&frames, 100.0));
        }
        let expected = ["main;leak 96000", "main;load;(narrower) 4000"];
        assert_eq!(lines(&stacks), expected);
    }

    #[test]
    fn a_frame_stays_in_one_piece() {
        let stacks = [
            stack(&["eval", "main"], 5000.0),
            stack(&["eval.cold", "main"], 5000.0),
            stack(&["call", "eval", "main"], 5000.0),
        ];
        let lines = lines(&stacks);
        assert_eq!(
            lines,
            [
                "main;eval 5000",
                "main;eval;call 5000",
                "main;eval.cold 5000"
            ]
        );
        let svg = String::from_utf8(draw(&lines, "heap").unwrap()).unwrap();
        let pieces = |name: &str| svg.matches(&format!("<title>{name} (")).count();
        assert_eq!(
            (pieces("eval"), pieces("eval.cold"), pieces("call")),
            (1, 1, 1)
        );
    }

    #[test]
    fn what_is_narrow_is_drawn_after_what_is_wide() {
        let lines = ["main;work 9000", "main;(narrower) 100"].map(str::to_owned);
        let svg = String::from_utf8(draw(&lines, "heap").unwrap()).unwrap();
        let at = |name: &str| svg.find(&format!("<title>{name} (")).unwrap();
        assert!(at("work") < at("(narrower)"));
    }
}

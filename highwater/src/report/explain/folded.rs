//! Folded stacks, and the flame graph made from them.

use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use super::{Explained, StackBytes};
use crate::analyse::heap::brief::brief;
use crate::analyse::heap::rank::frame_name;
use crate::observe::heap::symbols::Frame;

/// `outermost;...;innermost BYTES`, a line per stack; frames are never empty and hold no `;`.
pub fn folded(stacks: &[StackBytes]) -> String {
    folded_by(stacks, frame_name)
}

fn folded_by(stacks: &[StackBytes], name: impl Fn(&Frame) -> String) -> String {
    let mut lines: Vec<String> = stacks
        .iter()
        .filter(|stack| stack.bytes >= 1.0)
        .map(|stack| {
            let names = stack.frames.iter().rev().map(|frame| plain(&name(frame)));
            let names: Vec<String> = names.collect();
            let path = if names.is_empty() {
                "(unknown stack)".to_owned()
            } else {
                names.join(";")
            };
            format!("{path} {:.0}", stack.bytes)
        })
        .collect();
    lines.sort();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn plain(name: &str) -> String {
    name.chars()
        .map(|c| if c == ';' || c.is_control() { ':' } else { c })
        .collect()
}

/// Of the whole width: narrower than a pixel of the 1200 it has. Such frames cannot be seen, and the deepest of them
/// would leave a gap above all others.
const NARROW_PERCENT: f64 = 0.1;

/// Inside a page an SVG that gives no width of its own is 300 pixels wide.
const STYLE: &str = "body { font: 16px/1.4 sans-serif; margin: 1.5rem; } svg { width: 100%; }";

/// An SVG file, or with `html` a page around it. An error when there is nothing to draw.
pub fn flame_graph(explained: &Explained, html: bool) -> Result<Vec<u8>, String> {
    // A bar has room for the beginning of a short name.
    let text = folded_by(&explained.stacks, |frame| brief(&frame_name(frame)));
    let mut options = Options::default();
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.title = format!("live heap of {}", plain(&explained.command));
    options.count_name = "bytes".to_owned();
    options.min_width = NARROW_PERCENT;
    let mut svg = Vec::new();
    from_lines(&mut options, text.lines(), &mut svg)
        .map_err(|error| format!("no flame graph can be drawn: {error} (no live samples?)"))?;
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
                title { (options.title) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::heap::symbols::Frame;

    #[test]
    fn outermost_first_with_bytes_behind() {
        let frame = |name: &str| Frame {
            function: Some(name.into()),
            ..Frame::default()
        };
        let stacks = [StackBytes {
            frames: vec![frame("leak"), frame("a;b"), frame("main")],
            addresses: Vec::new(),
            bytes: 4096.4,
            blocks: 1.0,
            grown_bytes: 0.0,
        }];
        assert_eq!(folded(&stacks), "main;a:b;leak 4096\n");
    }
}

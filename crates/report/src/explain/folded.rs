//! Folded stacks.

use super::StackBytes;
use memory::rank::frame_name;

/// `outermost;...;innermost BYTES`, a line per stack; frames are never empty and hold no `;`.
pub fn folded(stacks: &[StackBytes]) -> String {
    let mut lines: Vec<String> = stacks
        .iter()
        .filter(|stack| stack.bytes >= 1.0)
        .map(|stack| {
            let names = stack
                .frames
                .iter()
                .rev()
                .map(|frame| plain(&frame_name(frame)));
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

/// A name without what separates frames.
pub(super) fn plain(name: &str) -> String {
    name.chars()
        .map(|c| if c == ';' || c.is_control() { ':' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbols::frame::Frame;

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

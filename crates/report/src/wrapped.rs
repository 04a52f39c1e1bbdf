//! Sentences in lines: what is to be copied stays whole, and so does a number with its unit.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// A space that no line ends at.
const JOINED: char = '\u{a0}';
const UNITS: [&str; 12] = [
    "B", "KiB", "MiB", "GiB", "TiB", "%", "ns", "us", "µs", "ms", "s", "min",
];

/// Lines of at most `columns`, each but the first behind `indent`. Names, paths and what stands in backticks are longer
/// at times, and stay whole.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> String {
    let options = Options::new(columns)
        .subsequent_indent(indent)
        .break_words(false)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(&joined(text), options).replace(JOINED, " ")
}

fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_command = false;
    for word in text.split_inclusive(' ') {
        let unit = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '%');
        let is_unit = UNITS.contains(&unit) || unit.ends_with("B/h");
        let follows_number = out.trim_end().ends_with(|c: char| c.is_ascii_digit());
        if (in_command || is_unit && follows_number) && out.ends_with(' ') {
            out.pop();
            out.push(JOINED);
        }
        out.push_str(word);
        in_command ^= word.matches('`').count() % 2 == 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_numbers_stay_whole() {
        let text = "Next: see what grows: `sudo highwater explain --pid 42`; it holds 18.0 MiB now, and \
                    grows by +475 MiB/h (2.6 %)";
        let lines = wrapped(text, 40, "  ");
        assert_eq!(
            lines,
            "Next: see what grows:\n  `sudo highwater explain --pid 42`; it\n  holds 18.0 MiB now, and grows by\n  \
             +475 MiB/h (2.6 %)"
        );
        assert!(!wrapped("no `end of a command 1 s", 10, "").contains(JOINED));
    }
}

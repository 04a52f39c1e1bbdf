//! What is wrong with an experiment, shown where it was written.

use std::fmt;

use units::wording::shown;

/// Problems shown at once; the rest are counted. More than a screen helps nobody.
const PROBLEMS_SHOWN_MAX: usize = 20;
/// Widest piece of a line that is quoted, in characters.
const LINE_SHOWN_CHARS: usize = 90;

/// A piece of the experiment file (source 0) or of the n-th `--set` (source n): byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub source: usize,
    pub start: usize,
    pub end: usize,
}

impl Place {
    /// The file as a whole, for what is not written anywhere in it.
    pub const WHOLE: Place = Place {
        source: 0,
        start: 0,
        end: 0,
    };
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<T> {
    pub value: T,
    pub place: Place,
}

/// Something wrong, not yet shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    pub message: String,
    /// What to do about it, when the message does not say so already.
    pub help: Option<String>,
}

/// A text that the experiment was read from.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path of the file, or the override as typed.
    pub name: String,
    pub text: String,
}

/// One problem with its place, ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `relay.toml:12:3`, `relay.toml`, or `--set duration=1 (column 10)`.
    pub place: String,
    /// 1-based line of the file; `None` for an override or the file as a whole.
    pub line: Option<usize>,
    pub message: String,
    pub help: Option<String>,
    /// The line itself, safe to print, with the range of characters meant.
    pub quote: Option<(String, usize, usize)>,
}

/// Everything that is wrong with an experiment; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Places the faults in their sources, in the order of the text, each one once.
    pub fn new(mut faults: Vec<Fault>, sources: &[Source]) -> Problems {
        faults.sort_by_key(|fault| (fault.place.source, fault.place.start));
        faults.dedup();
        Problems(
            faults
                .into_iter()
                .map(|fault| locate(fault, sources))
                .collect(),
        )
    }

    /// A problem with the file itself (unreadable, too large).
    pub fn of_file(name: &str, message: String) -> Problems {
        let fault = Fault {
            place: Place::WHOLE,
            message,
            help: None,
        };
        Problems::new(
            vec![fault],
            &[Source {
                name: name.into(),
                text: String::new(),
            }],
        )
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().take(PROBLEMS_SHOWN_MAX).enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        match self.0.len().saturating_sub(PROBLEMS_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n... and {more} more"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some((text, from, to)) = &self.quote {
            let number = self.line.map(|n| n.to_string()).unwrap_or_default();
            let marks = "^".repeat((to - from).max(1));
            write!(f, "\n  {number:>4} | {text}\n       | {:from$}{marks}", "")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n       = {help}"),
            None => Ok(()),
        }
    }
}

fn locate(fault: Fault, sources: &[Source]) -> Problem {
    let Fault {
        place,
        message,
        help,
    } = fault;
    let Some(source) = sources.get(place.source) else {
        return Problem {
            place: "experiment".into(),
            line: None,
            message,
            help,
            quote: None,
        };
    };
    let name = shown(&source.name, 200);
    if place == Place::WHOLE {
        return Problem {
            place: name,
            line: None,
            message,
            help,
            quote: None,
        };
    }
    let spot = spot(&source.text, place);
    let (shown_place, line) = match place.source {
        0 => (
            format!("{name}:{}:{}", spot.line, spot.column),
            Some(spot.line),
        ),
        _ => (format!("--set {name} (column {})", spot.column), None),
    };
    Problem {
        place: shown_place,
        line,
        message,
        help,
        quote: Some(spot.quote),
    }
}

struct Spot {
    line: usize,
    column: usize,
    quote: (String, usize, usize),
}

/// Line and column (1-based, in characters) of a place, and the line around it.
fn spot(text: &str, place: Place) -> Spot {
    let start = floor_char(text, place.start);
    let end = floor_char(text, place.end.max(place.start));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let before = text[line_start..start].chars().count();
    let meant = text[start..end.min(line_end).max(start)].chars().count();
    let line: Vec<char> = text[line_start..line_end]
        .trim_end_matches('\r')
        .chars()
        .collect();
    // A long line is cut so that what is meant stays visible.
    let cut = if before + 20 > LINE_SHOWN_CHARS {
        before - 10
    } else {
        0
    };
    let piece: String = line.iter().skip(cut).collect();
    let piece = shown(&piece, LINE_SHOWN_CHARS);
    let length = piece.chars().count();
    let from = (before - cut).min(length);
    let quote = (piece, from, (from + meant).min(length).max(from));
    Spot {
        line: text[..start].matches('\n').count() + 1,
        column: before + 1,
        quote,
    }
}

/// The nearest character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str, start: usize, end: usize) -> String {
        let fault = Fault {
            place: Place {
                source: 0,
                start,
                end,
            },
            message: "wrong".into(),
            help: None,
        };
        let source = Source {
            name: "x.toml".into(),
            text: text.into(),
        };
        Problems::new(vec![fault], &[source]).to_string()
    }

    #[test]
    fn the_line_is_quoted_with_its_place() {
        let text = "a = 1\nünder = 2\n";
        let at = text.find("= 2").unwrap();
        assert_eq!(
            problem(text, at, at + 3),
            "x.toml:2:7: wrong\n     2 | ünder = 2\n       |       ^^^"
        );
    }

    #[test]
    fn a_long_or_hostile_line_stays_on_its_line() {
        let text = format!("key = \"{}\x1b[2J\"\n", "x".repeat(500));
        let shown = problem(&text, 400, 404);
        assert!(
            shown.lines().all(|line| line.chars().count() < 110),
            "{shown}"
        );
        assert!(!shown.contains('\x1b'));
        assert!(shown.contains("^^^^"));
    }

    #[test]
    fn places_outside_the_text_do_not_panic() {
        for (start, end) in [(99, 120), (3, 1), (0, 99)] {
            assert!(problem("é\n", start, end).contains("wrong"));
        }
    }
}

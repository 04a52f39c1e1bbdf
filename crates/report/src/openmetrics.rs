//! Samples as a page that Prometheus scrapes: OpenMetrics 1.0, or the older text format for those that do not ask
//! for it.
//!
//! The two differ where it matters to a strict reader: OpenMetrics names a counter's family without `_total`, knows
//! units and the type info, and ends with `# EOF`.

use std::fmt::Write as _;
use std::sync::Arc;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    OpenMetrics,
    Text,
}

impl Form {
    /// What the client takes, by its `Accept` header.
    pub fn accepted(header: &str) -> Form {
        match header.contains("application/openmetrics-text") {
            true => Form::OpenMetrics,
            false => Form::Text,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Gauge,
    Counter,
    /// Always 1; what it says stands in its labels.
    Info,
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Without `_total` and `_info`.
    pub name: String,
    pub kind: Type,
    /// `bytes`, `seconds` or none.
    pub unit: &'static str,
    pub help: String,
    /// Labels as [`labels`] wrote them, and the value; the labels of two samples differ.
    pub samples: Vec<(Arc<str>, f64)>,
}

impl Family {
    /// The name that its samples have.
    pub fn sample_name(&self) -> String {
        format!("{}{}", self.name, self.suffix())
    }

    fn suffix(&self) -> &'static str {
        match self.kind {
            Type::Gauge => "",
            Type::Counter => "_total",
            Type::Info => "_info",
        }
    }
}

/// Names and values of labels, as they stand between the braces.
pub fn labels<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> Arc<str> {
    let mut text = String::new();
    for (name, value) in all {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"");
        escape(value, &mut text);
        text.push('"');
    }
    text.into()
}

/// Label values may hold anything but must show quotes, backslashes and line breaks escaped.
fn escape(value: &str, into: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

/// The page. Families without samples are left out, and so are values that are no number.
pub fn page(families: &[Family], form: Form) -> String {
    let mut page = String::new();
    for family in families.iter().filter(|f| !f.samples.is_empty()) {
        write_family(family, form, &mut page);
    }
    if form == Form::OpenMetrics {
        page.push_str("# EOF\n");
    }
    page
}

fn write_family(family: &Family, form: Form, page: &mut String) {
    let suffix = family.suffix();
    let (name, kind) = (&family.name, family.kind);
    let (of_family, word) = match (form, kind) {
        (Form::OpenMetrics, Type::Info) => (name.clone(), "info"),
        (Form::OpenMetrics, Type::Counter) => (name.clone(), "counter"),
        (Form::Text, Type::Info) => (format!("{name}{suffix}"), "gauge"),
        (Form::Text, Type::Counter) => (format!("{name}{suffix}"), "counter"),
        (_, Type::Gauge) => (name.clone(), "gauge"),
    };
    let _ = writeln!(page, "# TYPE {of_family} {word}");
    if form == Form::OpenMetrics && !family.unit.is_empty() {
        let _ = writeln!(page, "# UNIT {of_family} {}", family.unit);
    }
    let mut help = String::new();
    escape(&family.help, &mut help);
    // A quote is escaped in OpenMetrics only.
    let help = match form {
        Form::OpenMetrics => help,
        Form::Text => help.replace("\\\"", "\""),
    };
    let _ = writeln!(page, "# HELP {of_family} {help}");
    for (labels, value) in family.samples.iter().filter(|(_, value)| !value.is_nan()) {
        let braces = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{labels}}}"),
        };
        let _ = writeln!(page, "{name}{suffix}{braces} {}", number(*value));
    }
}

fn number(value: f64) -> String {
    match value {
        v if v == f64::INFINITY => "+Inf".to_owned(),
        v if v == f64::NEG_INFINITY => "-Inf".to_owned(),
        v => v.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &str, kind: Type, unit: &'static str, value: f64) -> Family {
        Family {
            name: name.into(),
            kind,
            unit,
            help: "It's \"so\".".into(),
            samples: vec![(labels([("process", "a\"b\\c\nd"), ("pid", "7")]), value)],
        }
    }

    fn families() -> [Family; 4] {
        [
            family("x_rss_bytes", Type::Gauge, "bytes", 4096.0),
            family("x_cpu_seconds", Type::Counter, "seconds", 0.25),
            family("x_allocator", Type::Info, "", 1.0),
            Family {
                samples: Vec::new(),
                ..family("x_none", Type::Gauge, "", 0.0)
            },
        ]
    }

    #[test]
    fn openmetrics_as_the_standard_wants_it() {
        let labels = r#"{process="a\"b\\c\nd",pid="7"}"#;
        let wanted = format!(
            "# TYPE x_rss_bytes gauge\n# UNIT x_rss_bytes bytes\n# HELP x_rss_bytes It's \\\"so\\\".\n\
             x_rss_bytes{labels} 4096\n\
             # TYPE x_cpu_seconds counter\n# UNIT x_cpu_seconds seconds\n# HELP x_cpu_seconds It's \\\"so\\\".\n\
             x_cpu_seconds_total{labels} 0.25\n\
             # TYPE x_allocator info\n# HELP x_allocator It's \\\"so\\\".\nx_allocator_info{labels} 1\n# EOF\n"
        );
        assert_eq!(page(&families(), Form::OpenMetrics), wanted);
    }

    #[test]
    fn the_older_text_names_what_it_types() {
        let text = page(&families(), Form::Text);
        assert!(
            text.contains("# TYPE x_cpu_seconds_total counter\n"),
            "{text}"
        );
        assert!(
            text.contains("# TYPE x_allocator_info gauge\n# HELP x_allocator_info It's \"so\".\n")
        );
        assert!(!text.contains("UNIT") && !text.contains("EOF"));
    }

    #[test]
    fn odd_numbers() {
        assert_eq!(
            (number(1e300).len(), number(f64::INFINITY).as_str()),
            (301, "+Inf")
        );
        let none = [family("x", Type::Gauge, "", f64::NAN)];
        assert!(!page(&none, Form::Text).contains("\nx{"));
        assert_eq!(
            Form::accepted("application/openmetrics-text;version=1.0.0,*/*;q=0.1"),
            Form::OpenMetrics
        );
        assert_eq!(Form::accepted("text/html"), Form::Text);
    }
}

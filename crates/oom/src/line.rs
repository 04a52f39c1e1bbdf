//! The lines of a log, in whichever format, as records: when, who wrote it, one line of text.
//!
//! Read are: records of `/dev/kmsg`; dmesg, plain, `-T`, `--raw` and `--time-format=iso`; journalctl's `short` (with
//! `-iso`, `-precise`, `-full`, `-unix`, `-monotonic`) and `json`; files of syslog. A log may change from one to
//! another.

use crate::kill::At;
pub use crate::stamp::Clock;

/// Who wrote a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Kernel,
    /// By its name in syslog, such as systemd-oomd.
    Program(String),
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    pub at: At,
    /// Of the log, from 1.
    pub line: u64,
    pub origin: &'a Origin,
    pub text: &'a str,
}

/// Reads line by line; a line without a stamp that is indented goes on with the one before.
#[derive(Debug)]
pub struct Lines {
    clock: Clock,
    at: At,
    origin: Origin,
}

impl Lines {
    pub fn new(clock: Clock) -> Lines {
        Lines {
            clock,
            at: At::default(),
            origin: Origin::Kernel,
        }
    }

    /// Gives the records of a line, which is the `number`th.
    pub fn read(&mut self, line: &str, number: u64, give: &mut dyn FnMut(&Record<'_>)) {
        let line = line.trim_end_matches(['\r', '\n']);
        let text = match line.as_bytes().first() {
            None => return,
            Some(b'{') => match self.json(line) {
                Some(text) => text,
                None => return,
            },
            Some(b'0'..=b'9') => match self.kmsg(line) {
                Some(text) => text,
                None => self.plain(line).to_owned(),
            },
            _ => self.plain(line).to_owned(),
        };
        // rsyslog writes a newline within a message as #012.
        for text in text.split('\n').flat_map(|text| text.split("#012")) {
            give(&Record {
                at: self.at,
                line: number,
                origin: &self.origin,
                text: text.trim(),
            });
        }
    }

    /// `3,458,6375519,-;text`; what follows in lines of their own, `KEY=value`, begins with a blank.
    fn kmsg(&mut self, line: &str) -> Option<String> {
        let (head, text) = line.split_once(';')?;
        let mut fields = head.split(',');
        let (_, _, micros) = (
            number(fields.next()?)?,
            number(fields.next()?)?,
            fields.next()?,
        );
        fields.next()?;
        self.at = self.clock.at_boot(number(micros)? as f64 / 1e6);
        self.origin = Origin::Kernel;
        Some(unescaped(text))
    }

    fn plain<'a>(&mut self, line: &'a str) -> &'a str {
        let Some((at, rest)) = self.clock.stamp(line) else {
            if !line.starts_with(char::is_whitespace) {
                self.origin = Origin::Kernel;
            }
            return line;
        };
        self.at = at;
        self.origin = Origin::Kernel;
        let Some((program, rest)) = written_by(rest) else {
            return rest;
        };
        if program != "kernel" {
            self.origin = Origin::Program(program.to_owned());
            return rest;
        }
        // Syslog keeps the kernel's own stamp in the text.
        match self.clock.bracket(rest) {
            Some((inner, text)) if inner.boot_s.is_some() => {
                self.at.boot_s = inner.boot_s;
                text
            }
            _ => rest,
        }
    }

    /// An object of `journalctl -o json`; `None` where it has no message.
    fn json(&mut self, line: &str) -> Option<String> {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        let micros = |key: &str| Some(entry.get(key)?.as_str()?.parse::<u64>().ok()? as f64 / 1e6);
        self.at = At {
            wall_s: micros("_SOURCE_REALTIME_TIMESTAMP").or_else(|| micros("__REALTIME_TIMESTAMP")),
            boot_s: micros("_SOURCE_MONOTONIC_TIMESTAMP"),
        };
        let program = entry
            .get("SYSLOG_IDENTIFIER")
            .and_then(|name| name.as_str());
        let is_kernel = match entry.get("_TRANSPORT").and_then(|name| name.as_str()) {
            Some(transport) => transport == "kernel",
            None => program == Some("kernel"),
        };
        self.origin = match is_kernel {
            true => Origin::Kernel,
            false => Origin::Program(program.unwrap_or_default().to_owned()),
        };
        match entry.get("MESSAGE")? {
            serde_json::Value::String(text) => Some(text.clone()),
            // Text that is not UTF-8 is written as bytes.
            serde_json::Value::Array(bytes) => {
                let bytes = bytes.iter().map(|byte| byte.as_u64().unwrap_or(0) as u8);
                Some(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
            }
            _ => None,
        }
    }
}

/// `host program[12]: text`: the program and the text.
fn written_by(rest: &str) -> Option<(&str, &str)> {
    let (_, rest) = rest.split_once(' ')?;
    let (tag, text) = rest
        .split_once(": ")
        .or_else(|| Some((rest.strip_suffix(':')?, "")))?;
    let name = tag.split_once('[').map_or(tag, |(name, _)| name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./@".contains(c);
    // A word with a colon stands in the kernel's messages too ("usb 1-1: new device").
    let is_tag = name == "kernel" || tag.ends_with(']');
    (is_tag && !name.is_empty() && name.chars().all(is_name)).then_some((name, text))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// `\x0a` is a byte, as printk's devkmsg writes all that is not printable ASCII.
fn unescaped(text: &str) -> String {
    if !text.contains("\\x") {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = rest.strip_prefix(b"\\x").and_then(|hex| hex.get(..2));
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn clock() -> Clock {
        Clock {
            now_s: 1_795_761_000.0, // 2026-11-27T06:30:00Z
            zone: TimeZone::UTC,
            boot_wall_s: None,
        }
    }

    fn read(line: &str) -> Vec<(At, Origin, String)> {
        let mut found = Vec::new();
        let mut lines = Lines::new(clock());
        lines.read(line, 1, &mut |record| {
            found.push((record.at, record.origin.clone(), record.text.to_owned()));
        });
        found
    }

    #[test]
    fn every_format_gives_stamp_and_text() {
        let (wall, boot) = (Some(1_795_760_537.0), Some(6.375519));
        let cases = [
            ("[    6.375519] Mem-Info:", None, boot),
            ("<4>[    6.375519] Mem-Info:", None, boot),
            ("[    6.375519][  T156] Mem-Info:", None, boot),
            ("[    6.375519] [   T156] Mem-Info:", None, boot),
            ("4,457,6375519,-;Mem-Info:", None, boot),
            ("4,457,6375519,-,caller=T156;Mem-Info:", None, boot),
            ("[Fri Nov 27 06:22:17 2026] Mem-Info:", wall, None),
            ("2026-11-27T06:22:17,000000+00:00 Mem-Info:", wall, None),
            ("Nov 27 06:22:17 web1 kernel: Mem-Info:", wall, None),
            ("Nov 27 06:22:17.000000 web1 kernel: Mem-Info:", wall, None),
            (
                "Nov 27 06:22:17 web1 kernel: [    6.375519] Mem-Info:",
                wall,
                boot,
            ),
            (
                "2026-11-27T07:22:17+0100 web1 kernel: Mem-Info:",
                wall,
                None,
            ),
            (
                "2026-11-27T06:22:17.000000+00:00 web1 kernel: [    6.375519] Mem-Info:",
                wall,
                boot,
            ),
            (
                "Fri 2026-11-27 06:22:17 UTC web1 kernel: Mem-Info:",
                wall,
                None,
            ),
            ("1795760537.000000 web1 kernel: Mem-Info:", wall, None),
            ("[    6.375519] web1 kernel: Mem-Info:", None, boot),
            (
                r#"{"__REALTIME_TIMESTAMP":"1795760537000000","_SOURCE_MONOTONIC_TIMESTAMP":"6375519",
                "_TRANSPORT":"kernel","MESSAGE":"Mem-Info:"}"#,
                wall,
                boot,
            ),
            ("Mem-Info:\r", None, None),
        ];
        for (line, wall_s, boot_s) in cases {
            let expected = (
                At { wall_s, boot_s },
                Origin::Kernel,
                "Mem-Info:".to_owned(),
            );
            assert_eq!(read(line), [expected], "{line}");
        }
    }

    #[test]
    fn a_date_without_a_year_is_not_in_the_future() {
        let at = |line: &str| read(line)[0].0.wall_s.unwrap();
        let day = 86_400.0;
        assert_eq!(at("Nov 27 06:22:17 web1 kernel: x"), 1_795_760_537.0);
        assert_eq!(
            at("Nov 29 06:22:17 web1 kernel: x"),
            1_795_760_537.0 - 363.0 * day
        );
        assert_eq!(
            at("Dec  1 06:22:17 web1 kernel: x"),
            1_795_760_537.0 - 361.0 * day
        );
    }

    #[test]
    fn programs_are_told_from_the_kernel() {
        let by = |line: &str| read(line)[0].1.clone();
        let oomd = Origin::Program("systemd-oomd".to_owned());
        assert_eq!(
            by("Nov 27 06:22:17 web1 systemd-oomd[513]: Killed /a"),
            oomd
        );
        let json =
            r#"{"_TRANSPORT":"journal","SYSLOG_IDENTIFIER":"systemd-oomd","MESSAGE":"Killed /a"}"#;
        assert_eq!(by(json), oomd);
        assert_eq!(by("[    6.375519] usb 1-1: new device"), Origin::Kernel);
    }

    /// As journalctl and dmesg print a message of several lines.
    #[test]
    fn an_indented_line_goes_on_with_the_one_before() {
        let mut found = Vec::new();
        let mut lines = Lines::new(clock());
        for line in [
            "Nov 27 06:22:17 web1 kernel: anon 1",
            "                             file 2",
        ] {
            lines.read(line, 1, &mut |record| {
                found.push((record.at, record.text.to_owned()))
            });
        }
        assert_eq!(found[1], (found[0].0, "file 2".to_owned()));
    }

    #[test]
    fn a_message_of_several_lines_is_several_records() {
        let texts =
            |line: &str| -> Vec<String> { read(line).into_iter().map(|record| record.2).collect() };
        assert_eq!(texts("6,1,5,-;anon 1\\x0afile 2"), ["anon 1", "file 2"]);
        assert_eq!(
            texts("Nov 27 06:22:17 web1 kernel: anon 1#012file 2"),
            ["anon 1", "file 2"]
        );
        assert_eq!(
            texts(r#"{"_TRANSPORT":"kernel","MESSAGE":[97,10,98]}"#),
            ["a", "b"]
        );
        assert_eq!(texts("6,1,5,-;a\\xzz\\x"), ["a\\xzz\\x"]);
    }
}

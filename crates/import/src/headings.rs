//! Names of columns as programs and people write them, cut into words and a unit: `RSS (MiB)`, `mem_used_mb`,
//! `VmRSS`, `Memory Usage`, `t_ms`.

/// A name in small words, without the unit that it ends in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words {
    pub words: Vec<String>,
    /// In small letters: "kib", "ms".
    pub unit: Option<String>,
}

/// Factor to bytes of a unit as people write it; of `%4GiB`, a percentage of 4 GiB, too.
pub fn unit_factor(unit: &str) -> Option<f64> {
    if let Some(size) = unit.strip_prefix('%') {
        let size = units::parse_bytes(size).ok().filter(|bytes| *bytes > 0)?;
        return Some(size as f64 / 100.0);
    }
    Some(match unit.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        "tib" => 1_099_511_627_776.0,
        _ => return None,
    })
}

/// Factor to bytes of a unit in a name or a cell. kB is KiB there: it is copied from /proc, which says kB and
/// means KiB.
pub fn factor_of_word(unit: &str) -> Option<f64> {
    match unit.to_ascii_lowercase().as_str() {
        "kb" | "kbytes" => Some(1024.0),
        "kilobytes" => Some(1e3),
        "mbytes" | "megabytes" => unit_factor("mb"),
        "gbytes" | "gigabytes" => unit_factor("gb"),
        other => unit_factor(other),
    }
}

/// Factor to seconds of a unit of time.
pub fn seconds_of_word(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millis" | "milliseconds" => 1e-3,
        "us" | "µs" | "μs" | "usec" | "micros" | "microseconds" => 1e-6,
        "ns" | "nanos" | "nanoseconds" => 1e-9,
        "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

/// Whether a unit as a row or a cell says it is a percentage.
pub fn is_percent(unit: &str) -> bool {
    matches!(unit.to_ascii_lowercase().as_str(), "%" | "percent" | "pct")
}

/// Units that stand only in brackets: elsewhere `mi` and `m` may be anything. A small m is a thousandth of a CPU.
const BRACKETED: &[(&str, &str)] = &[
    ("Ki", "kib"),
    ("Mi", "mib"),
    ("Gi", "gib"),
    ("Ti", "tib"),
    ("K", "kib"),
    ("M", "mib"),
    ("G", "gib"),
    ("T", "tib"),
];

/// The name before brackets at the end of it, and what they hold.
fn brackets(name: &str) -> Option<(&str, &str)> {
    let inner = name.trim().strip_suffix([')', ']'])?;
    let (bare, unit) = inner.rsplit_once(['(', '['])?;
    Some((bare.trim(), unit.trim())).filter(|(bare, _)| !bare.is_empty())
}

/// What a unit that stands only in brackets is called elsewhere.
fn spelled_out(unit: &str) -> Option<&'static str> {
    let found = BRACKETED.iter().find(|(short, _)| *short == unit);
    found.map(|(_, long)| *long)
}

fn is_unit(word: &str) -> bool {
    factor_of_word(word).is_some() || seconds_of_word(word).is_some()
}

/// Cuts a name. A percentage is a word of its own, so that `%MEM` is no memory.
pub fn words_of(name: &str) -> Words {
    let bracketed = brackets(name).and_then(|(bare, unit)| Some((bare, spelled_out(unit)?)));
    if let Some((bare, unit)) = bracketed {
        let words = words_of(bare);
        return Words {
            unit: Some(unit.to_owned()),
            ..words
        };
    }
    let name = name.replace('%', " percent ");
    let mut words: Vec<String> = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .flat_map(parts_of)
        .map(|part| part.to_lowercase())
        .collect();
    let unit = words.pop_if(|last| is_unit(last));
    if unit.is_some() {
        words.pop_if(|last| last == "in");
    }
    Words { words, unit }
}

/// `VmRSS` to Vm and RSS, `rssMiB` to rss and MiB; a unit stays whole.
fn parts_of(part: &str) -> Vec<&str> {
    const UNITS: &[&str] = &[
        "KiB", "MiB", "GiB", "kB", "KB", "MB", "GB", "Bytes", "Ms", "Seconds",
    ];
    if is_unit(&part.to_lowercase()) {
        return vec![part];
    }
    let tail = UNITS.iter().find(|unit| part.ends_with(**unit));
    let (rest, tail) = part.split_at(part.len() - tail.map_or(0, |unit| unit.len()));
    // "THUMB" is no number of megabytes of "THU".
    if rest.is_empty() || rest.chars().any(char::is_lowercase) || tail.is_empty() {
        let mut parts = humps(rest);
        parts.extend((!tail.is_empty()).then_some(tail));
        return parts;
    }
    humps(part)
}

/// Cut where a capital follows a small letter, and before the last of several capitals that a small one follows.
fn humps(part: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = part.char_indices().collect();
    let mut cuts = vec![0];
    for i in 1..chars.len() {
        let (before, here) = (chars[i - 1].1, chars[i].1);
        let next_small = chars.get(i + 1).is_some_and(|c| c.1.is_lowercase());
        let begins =
            here.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_small));
        if begins {
            cuts.push(chars[i].0);
        }
    }
    cuts.push(part.len());
    cuts.windows(2)
        .map(|w| &part[w[0]..w[1]])
        .filter(|p| !p.is_empty())
        .collect()
}

/// "api-1" of "api-1 (MiB)" and "api-1 [kB]".
pub fn without_unit(name: &str) -> &str {
    let is_size = |unit: &str| factor_of_word(unit).is_some() || spelled_out(unit).is_some();
    match brackets(name) {
        Some((bare, unit)) if is_size(unit) => bare,
        _ => name.trim(),
    }
}

impl Words {
    /// Whether the words are these, blanks between them.
    pub fn are(&self, phrase: &str) -> bool {
        self.words.iter().map(String::as_str).eq(phrase.split(' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        for (name, words, unit) in [
            ("rss_kib", "rss", Some("kib")),
            ("RSS (MiB)", "rss", Some("mib")),
            ("rss [kB]", "rss", Some("kb")),
            ("Memory Usage", "memory usage", None),
            ("mem_used_mb", "mem used", Some("mb")),
            ("RSS in MB", "rss", Some("mb")),
            ("VmRSS", "vm rss", None),
            ("rssBytes", "rss", Some("bytes")),
            ("memUsedMiB", "mem used", Some("mib")),
            ("MEMORY(bytes)", "memory", Some("bytes")),
            ("%MEM", "percent mem", None),
            ("MemoryUsage(Mi)", "memory usage", Some("mib")),
            ("rss(KiB)", "rss", Some("kib")),
            ("mem[MB]", "mem", Some("mb")),
            ("mem [G]", "mem", Some("gib")),
            ("CpuUsage(m)", "cpu usage m", None),
            ("mem_mi", "mem mi", None),
            ("memory.current", "memory current", None),
            ("t_ms", "t", Some("ms")),
            ("timestampMs", "timestamp", Some("ms")),
            ("Elapsed time", "elapsed time", None),
            ("THUMB", "thumb", None),
            ("AnonHugePages", "anon huge pages", None),
        ] {
            let cut = words_of(name);
            assert_eq!(
                (cut.words.join(" ").as_str(), cut.unit.as_deref()),
                (words, unit),
                "{name}"
            );
        }
        assert!(words_of("Memory Usage").are("memory usage"));
        assert_eq!(without_unit(" api-1 (MiB)"), "api-1");
        assert_eq!(without_unit("api-1(Mi)"), "api-1");
        assert_eq!(without_unit("api (old)"), "api (old)");
        assert_eq!(unit_factor("%4GiB"), Some(4.0 * 1_073_741_824.0 / 100.0));
        for none in ["%", "%0", "%lots", "4GiB"] {
            assert_eq!(unit_factor(none), None, "{none}");
        }
        assert_eq!(words_of("bytes").words, Vec::<String>::new());
    }
}

//! The class histogram of a JVM (`jmap -histo:all`), and names of classes as users write them.

use std::collections::HashMap;

use super::text::bounded;
use crate::TypeCount;

/// Classes, the most bytes first. Lines that are not of the table are left out.
///
/// ```text
///  num     #instances         #bytes  class name (module)
/// -------------------------------------------------------
///    1:         21355         798504  [B (java.base@25.0.3)
/// Total         81269        5976232
/// ```
pub(super) fn parse_histogram(text: &str) -> Vec<TypeCount> {
    let mut types: HashMap<String, TypeCount> = HashMap::new();
    for (name, objects, bytes) in text.lines().filter_map(row) {
        // Hidden classes of one lambda, and classes of one name in several loaders, are one type.
        let entry = types.entry(name.clone()).or_insert(TypeCount {
            name,
            objects: 0,
            bytes: 0,
        });
        entry.objects = entry.objects.saturating_add(objects);
        entry.bytes = entry.bytes.saturating_add(bytes);
    }
    let mut types: Vec<_> = types.into_values().collect();
    types.sort_by(|one, other| {
        other
            .bytes
            .cmp(&one.bytes)
            .then_with(|| one.name.cmp(&other.name))
    });
    types
}

fn row(line: &str) -> Option<(String, u64, u64)> {
    let (number, rest) = line.trim_start().split_once(':')?;
    number.parse::<u64>().ok()?;
    let mut words = rest.split_ascii_whitespace();
    let objects = words.next()?.parse().ok()?;
    let bytes = words.next()?.parse().ok()?;
    let name = words.next()?;
    Some((bounded(written_name(name)), objects, bytes))
}

/// `[Ljava.lang.String;` is `java.lang.String[]`. The address in a hidden class's name is cut off:
/// `App$$Lambda$14/0x0000000800c03000` is `App$$Lambda$14`.
pub(super) fn written_name(name: &str) -> String {
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    let element = match (dimensions, element) {
        (0, name) => name,
        (_, "B") => "byte",
        (_, "C") => "char",
        (_, "D") => "double",
        (_, "F") => "float",
        (_, "I") => "int",
        (_, "J") => "long",
        (_, "S") => "short",
        (_, "Z") => "boolean",
        (_, class) => class
            .strip_prefix('L')
            .unwrap_or(class)
            .trim_end_matches(';'),
    };
    without_address(element) + &"[]".repeat(dimensions)
}

/// Since JDK 16 the address is `/0x...`, before `/` and decimal digits.
fn without_address(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((class, address)) if address.starts_with(|first: char| first.is_ascii_digit()) => {
            class.to_owned()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::TEXT_BYTES_MAX;
    use super::*;

    const JVM_25: &str = include_str!("captured/histogram_25.txt");

    #[test]
    fn the_table_of_a_jvm() {
        let types = parse_histogram(JVM_25);
        let count = |name: &str| {
            types
                .iter()
                .find(|one| one.name == name)
                .map(|one| (one.objects, one.bytes))
        };
        assert_eq!(count("App$Session"), Some((12_345, 296_280)));
        assert_eq!(count("byte[]"), Some((21_355, 798_504)));
        assert_eq!(types[0].name, "jdk.internal.vm.FillerElement[]");
        let objects: u64 = types.iter().map(|one| one.objects).sum();
        assert_eq!(objects, 81_269);
    }

    #[test]
    fn names_are_as_in_source() {
        for (name, written) in [
            ("[B", "byte[]"),
            ("[[J", "long[][]"),
            ("[Ljava.lang.String;", "java.lang.String[]"),
            ("[[Lcom.example.A$B;", "com.example.A$B[][]"),
            ("B", "B"),
            ("App$$Lambda$14/0x0000000800c03000", "App$$Lambda$14"),
            ("App$$Lambda/0x00007f1", "App$$Lambda"),
            ("App$$Lambda$14/1234567", "App$$Lambda$14"),
            ("[", "[]"),
        ] {
            assert_eq!(written_name(name), written);
        }
    }

    #[test]
    fn hidden_classes_of_one_name_are_one_type() {
        let text = "1: 2 32 A$$Lambda/0x01\n2: 3 48 A$$Lambda/0x02 (java.base@25)\n 3: 9 1 \n4: x 1 B\n: 1 1 C\n";
        let expected = TypeCount {
            name: "A$$Lambda".into(),
            objects: 5,
            bytes: 80,
        };
        assert_eq!(parse_histogram(text), [expected]);
    }

    #[test]
    fn a_long_name_is_cut() {
        let text = format!("1: 2 32 {}\n", "A".repeat(60_000));
        assert!(parse_histogram(&text)[0].name.len() <= TEXT_BYTES_MAX);
    }
}

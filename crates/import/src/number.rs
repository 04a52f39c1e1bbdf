//! Numbers of a table: thousands separators, decimal commas, a unit behind the number, words for a missing
//! reading. What could mean two numbers is an error until the column, or a flag, has said which.

use super::headings::factor_of_word;

/// What stands between the whole and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimal {
    Point,
    Comma,
}

/// Why a cell is no number, in words, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoNumber {
    pub what: String,
    pub next: &'static str,
}

/// What the cells of one column have said so far about how to read the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Numbers {
    pub decimal: Option<Decimal>,
    /// What a comma before three digits is, when nothing else has said: in a file with commas between the
    /// fields it parts thousands.
    pub comma_parts_thousands: bool,
    /// Whether the name of the column, or a flag, says the unit.
    pub unit_said: bool,
    /// The unit is a percentage of a size, as `%4GiB`: a percent sign may stand behind a number.
    pub is_percent: bool,
    /// Whether the numbers seen so far had units behind them.
    pub(super) has_units: Option<bool>,
}

const MISSING: &[&str] = &[
    "", "-", "--", "n/a", "na", "null", "nil", "none", "#n/a", "nan", "?",
];

/// Whether a cell says that there is no reading.
pub fn is_missing(text: &str) -> bool {
    MISSING.iter().any(|word| text.eq_ignore_ascii_case(word))
}

const WRITE_A_NUMBER: &str = "write a number, or leave a missing reading empty";
/// What to do with percentages.
pub const SAY_OF_WHAT: &str = "say of how much memory: of 4 GiB with --unit %4GiB";
const SAY_DECIMAL: &str = "say which with --decimal . or --decimal ,";

/// Letters that stand alone for a power of 1024, as top, ps, smem and systemd write them; and those of Kubernetes.
const LETTERS: &[(&str, f64)] = &[
    ("k", 1024.0),
    ("ki", 1024.0),
    ("m", 1_048_576.0),
    ("mi", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("gi", 1_073_741_824.0),
    ("t", 1_099_511_627_776.0),
    ("ti", 1_099_511_627_776.0),
];

impl Numbers {
    /// The number, times `factor` unless the cell has a unit of its own; NaN when it is missing.
    pub fn read(&mut self, text: &str, factor: f64) -> Result<f64, NoNumber> {
        if let Ok(number) = text.parse::<f64>()
            && self.plain(text)
        {
            self.agree_on_units(text, number, false)?;
            return Ok(number * factor);
        }
        if is_missing(text) {
            return Ok(f64::NAN);
        }
        // `docker stats` writes what is used before what is allowed.
        let used = text.split_once(" / ").map_or(text, |(used, _)| used);
        let used = match used.strip_suffix('%') {
            Some(percents) if self.is_percent => percents,
            Some(_) => return Err(no_bytes(text)),
            None => used,
        };
        let (digits, unit) = split_unit(used);
        let number = self.written(digits, text)?;
        match unit_of(unit) {
            _ if unit.is_empty() => {
                self.agree_on_units(text, number, false)?;
                Ok(number * factor)
            }
            Some(own) => {
                self.agree_on_units(text, number, true)?;
                Ok(number * own)
            }
            None => Err(no_number(text)),
        }
    }

    /// Whether a number that Rust can read may be read so: a point is a decimal point until a comma was.
    fn plain(&mut self, text: &str) -> bool {
        if !text.contains('.') {
            return true;
        }
        match self.decimal {
            Some(Decimal::Comma) => false,
            Some(Decimal::Point) => true,
            None => {
                self.decimal = Some(Decimal::Point);
                true
            }
        }
    }

    /// A number with a unit beside one without: nobody said the unit of the other.
    fn agree_on_units(&mut self, text: &str, number: f64, has_unit: bool) -> Result<(), NoNumber> {
        if self.unit_said || number == 0.0 || !number.is_finite() {
            return Ok(());
        }
        match self.has_units {
            Some(before) if before != has_unit => {
                let (here, there) = if has_unit {
                    ("has a", "had none")
                } else {
                    ("has no", "had one")
                };
                Err(NoNumber {
                    what: format!("{text:?} {here} unit where those before {there}"),
                    next: "say with --unit what a number without a unit is",
                })
            }
            _ => {
                self.has_units = Some(has_unit);
                Ok(())
            }
        }
    }

    /// A number with separators.
    fn written(&mut self, digits: &str, cell: &str) -> Result<f64, NoNumber> {
        let joined = without_blanks(digits).ok_or_else(|| no_number(cell))?;
        let proved = proof(&joined);
        let decimal = match (self.decimal, proved) {
            (Some(known), Some(shown)) if known != shown => return Err(contradiction(cell, known)),
            (Some(known), _) => known,
            (None, Some(shown)) => shown,
            (None, None) if !joined.contains(',') || self.comma_parts_thousands => Decimal::Point,
            (None, None) => {
                let what =
                    format!("{cell:?} may be a thousand times as large: is its comma decimal?");
                return Err(NoNumber {
                    what,
                    next: SAY_DECIMAL,
                });
            }
        };
        let number = joined_number(&joined, decimal).ok_or_else(|| no_number(cell))?;
        if joined.contains([',', '.']) {
            self.decimal = Some(decimal);
        }
        Ok(number)
    }

    /// Looks ahead at a cell, for what it proves about the others.
    pub fn learn(&mut self, text: &str) {
        let used = text.split_once(" / ").map_or(text, |(used, _)| used);
        let joined = without_blanks(split_unit(used).0);
        if self.decimal.is_none()
            && let Some(shown) = joined.as_deref().and_then(proof)
        {
            self.decimal = Some(shown);
        }
    }
}

fn no_number(cell: &str) -> NoNumber {
    let shown = units::wording::shown(cell, 60);
    NoNumber {
        what: format!("{shown:?} is no number"),
        next: WRITE_A_NUMBER,
    }
}

fn no_bytes(cell: &str) -> NoNumber {
    let shown = units::wording::shown(cell, 60);
    NoNumber {
        what: format!("{shown:?} is a percentage and no number of bytes"),
        next: SAY_OF_WHAT,
    }
}

fn contradiction(cell: &str, known: Decimal) -> NoNumber {
    let before = match known {
        Decimal::Point => "a decimal point",
        Decimal::Comma => "a decimal comma",
    };
    NoNumber {
        what: format!("{cell:?} where the numbers before have {before}"),
        next: SAY_DECIMAL,
    }
}

/// "1.2 GiB" to "1.2" and "GiB".
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.trim_end_matches(char::is_alphabetic);
    (digits.trim_end(), &text[digits.len()..])
}

/// The unit behind a number, when there is one.
pub fn own_unit(text: &str) -> Option<&str> {
    let used = text.split_once(" / ").map_or(text, |(used, _)| used);
    let (digits, unit) = split_unit(used);
    let begins = digits.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    (begins && unit_of(unit).is_some()).then_some(unit)
}

fn unit_of(word: &str) -> Option<f64> {
    let small = word.to_ascii_lowercase();
    let letter = LETTERS.iter().find(|(letter, _)| *letter == small);
    letter
        .map(|(_, factor)| *factor)
        .or_else(|| factor_of_word(word))
}

/// Blanks of all kinds, apostrophes and low lines between groups of three go; `None` where they part something else.
fn without_blanks(text: &str) -> Option<String> {
    const PARTS: [char; 7] = [' ', '\u{a0}', '\u{202f}', '\u{2009}', '\'', '’', '_'];
    if !text.contains(PARTS) {
        return Some(text.to_owned());
    }
    let (whole, rest) = text.split_at(text.find(['.', ',']).unwrap_or(text.len()));
    let groups: Vec<&str> = whole.split(PARTS).collect();
    (are_groups(&groups) && !rest.contains(PARTS)).then(|| groups.concat() + rest)
}

/// "1", "234", "567": one to three digits, then three each.
fn are_groups(groups: &[&str]) -> bool {
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let Some((first, rest)) = groups.split_first() else {
        return false;
    };
    let first = first.trim_start_matches(['+', '-']);
    (1..=3).contains(&first.len())
        && digits(first)
        && rest.iter().all(|g| g.len() == 3 && digits(g))
}

/// Which decimal sign a number cannot be read without; `None` when both are possible, or neither is there.
fn proof(text: &str) -> Option<Decimal> {
    let (commas, points) = (text.matches(',').count(), text.matches('.').count());
    match (commas, points) {
        (0, 0) => None,
        (1.., 1..) if text.rfind(',') > text.rfind('.') => Some(Decimal::Comma),
        (1.., 1..) => Some(Decimal::Point),
        (2.., _) => Some(Decimal::Point),
        (_, 2..) => Some(Decimal::Comma),
        (1, _) if !is_group_like(text, ',') => Some(Decimal::Comma),
        (_, 1) if !is_group_like(text, '.') => Some(Decimal::Point),
        _ => None,
    }
}

/// "123,456", which is a thousand times "123.456" or not; nobody writes "0,456" for 456.
fn is_group_like(text: &str, sign: char) -> bool {
    let groups: Vec<&str> = text.split(sign).collect();
    are_groups(&groups) && !groups[0].trim_start_matches(['+', '-']).starts_with('0')
}

fn joined_number(text: &str, decimal: Decimal) -> Option<f64> {
    let (sign, parts) = match decimal {
        Decimal::Point => ('.', ','),
        Decimal::Comma => (',', '.'),
    };
    let (whole, rest) = text
        .split_once(sign)
        .map_or((text, None), |(w, r)| (w, Some(r)));
    let groups: Vec<&str> = whole.split(parts).collect();
    if groups.len() > 1 && !are_groups(&groups) {
        return None;
    }
    let whole = groups.concat();
    let joined = rest.map_or_else(|| whole.clone(), |rest| format!("{whole}.{rest}"));
    joined.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn english() -> Numbers {
        Numbers {
            comma_parts_thousands: true,
            unit_said: true,
            ..Numbers::default()
        }
    }

    fn read(text: &str) -> Result<f64, NoNumber> {
        english().read(text, 1.0)
    }

    #[test]
    fn numbers_with_separators_and_units() {
        for (text, number) in [
            ("100,000", 100_000.0),
            ("1,234,567.8", 1_234_567.8),
            ("1.234.567,8", 1_234_567.8),
            ("1 234 567", 1_234_567.0),
            ("1\u{202f}234\u{a0}567", 1_234_567.0),
            ("1'234'567", 1_234_567.0),
            ("12,5", 12.5),
            ("0,125", 0.125),
            ("-3", -3.0),
            ("1.5e9", 1.5e9),
            ("123456 KiB", 123_456.0 * 1024.0),
            ("123456 kB", 123_456.0 * 1024.0),
            ("1.2 GiB", 1.2 * 1_073_741_824.0),
            ("120M", 120.0 * 1_048_576.0),
            ("1,5g", 1.5 * 1_073_741_824.0),
            ("120Mi", 120.0 * 1_048_576.0),
            ("120 MB", 120e6),
            ("12.3MiB / 1GiB", 12.3 * 1_048_576.0),
        ] {
            assert_eq!(read(text), Ok(number), "{text}");
        }
        for missing in ["", "NaN", "N/A", "null", "-", "None"] {
            assert!(read(missing).unwrap().is_nan(), "{missing}");
        }
        for bad in [
            "lots", "12%", "1,23,4", "1.2.3", "12 34", "1e", "GiB", "0x1F", "1,2 3", "--5",
            "5 apples",
        ] {
            assert!(read(bad).is_err(), "{bad}: {:?}", read(bad));
        }
    }

    #[test]
    fn what_may_be_two_numbers_is_an_error_until_it_is_said() {
        let mut alone = Numbers {
            unit_said: true,
            ..Numbers::default()
        };
        assert!(
            alone
                .read("123,456", 1.0)
                .unwrap_err()
                .next
                .contains("--decimal")
        );
        let mut comma = alone.clone();
        comma.learn("99,5");
        assert_eq!(comma.read("123,456", 1.0), Ok(123.456));
        assert_eq!(comma.read("1.234", 1.0), Ok(1234.0));
        let mut point = alone.clone();
        point.learn("1,234,567");
        assert_eq!(point.read("123,456", 1.0), Ok(123_456.0));
        assert!(
            point
                .read("99,5", 1.0)
                .unwrap_err()
                .what
                .contains("decimal point")
        );
        assert_eq!(alone.read("1.234", 1.0), Ok(1.234));
        assert!(
            alone.read("1.234,5", 1.0).is_err(),
            "1.234 was read as 1.234 before"
        );
    }

    #[test]
    fn a_unit_now_and_then_is_an_error_unless_the_rest_is_said() {
        let mut bare = Numbers::default();
        assert!(bare.read("1.5 GiB", 1.0).is_ok() && bare.read("0", 1.0).is_ok());
        assert!(bare.read("900", 1.0).unwrap_err().next.contains("--unit"));
        let mut said = Numbers {
            unit_said: true,
            ..Numbers::default()
        };
        assert_eq!(said.read("1 MiB", 1024.0), Ok(1_048_576.0));
        assert_eq!(said.read("900", 1024.0), Ok(921_600.0));
    }
}

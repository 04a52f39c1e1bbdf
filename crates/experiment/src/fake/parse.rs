//! From the text of a curve to the curve; the language is described in `fake::curve`.

use std::time::Duration;

use super::curve::{Curve, End};
use units::wording::{nearest, quoted};
use units::{parse_bytes, parse_bytes_per_second, parse_duration, parse_percent};

/// First words of terms.
const TERMS: &[&str] = &[
    "fill", "saw", "step", "noise", "spread", "cpu", "faults", "latency", "pause", "ready",
    "never", "crash", "exit", "oom", "hang",
];

impl Curve {
    /// # Errors
    /// In words: which term cannot be read, and how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut curve = Self::default();
        for term in text.split('+') {
            let words: Vec<&str> = term.split_whitespace().collect();
            parse_term(&mut curve, &words)
                .map_err(|why| format!("curve term {}: {why}", quoted(term.trim())))?;
        }
        let ticks_backwards = |(_, period): &(f64, Duration)| period.is_zero();
        if curve.fills.iter().chain(&curve.saws).any(ticks_backwards) {
            return Err("a curve's tau or period of 0 has no shape".into());
        }
        if curve.pause.is_some_and(|(length, every)| length >= every) {
            return Err("a curve's pause is as long as the time between two".into());
        }
        Ok(curve)
    }
}

fn parse_term(curve: &mut Curve, words: &[&str]) -> Result<(), String> {
    match words {
        ["fill", size, "tau", tau] => curve.fills.push((bytes(size)?, parse_duration(tau)?)),
        ["saw", size, "period", period] => curve.saws.push((bytes(size)?, parse_duration(period)?)),
        ["step", size, "at", at] => curve.steps.push((bytes(size)?, parse_duration(at)?)),
        ["noise", share] => curve.noise = parse_percent(share)?,
        ["spread", share] => curve.spread = parse_percent(share)?,
        ["cpu", share] => curve.cpu = parse_percent(share)?,
        ["faults", rate] => curve.faults_per_s = parse_per_second(rate)?,
        ["latency", median] => curve.latency = Some(parse_duration(median)?),
        ["pause", length, "every", every] => {
            curve.pause = Some((parse_duration(length)?, parse_duration(every)?));
        }
        ["ready", "after", after] => curve.ready_after = Some(parse_duration(after)?),
        ["never", "ready"] => curve.ready_after = None,
        ["crash", "at", at] => curve.ends.push(End::Crash(parse_duration(at)?)),
        ["exit", "at", at] => curve.ends.push(End::Exit(parse_duration(at)?)),
        ["oom", "at", size] => curve.ends.push(End::Oom(bytes(size)?)),
        ["hang", "at", at] => curve.hang_at = Some(parse_duration(at)?),
        [first, ..] if first.starts_with(|c: char| c.is_ascii_digit()) => {
            let term = words.join(" ");
            match term.contains('/') {
                true => curve.slope_per_s += parse_bytes_per_second(&term)?,
                false => curve.level += bytes(&term)?,
            }
        }
        [] => return Err("nothing stands between two +".into()),
        [first, ..] => return Err(unknown(first)),
    }
    Ok(())
}

fn unknown(first: &str) -> String {
    if let Some(known) = TERMS.iter().find(|term| **term == first) {
        return format!("`{known}` is written {}", written(known));
    }
    match nearest(first, TERMS.iter().copied()) {
        Some(near) => format!("did you mean {}?", written(near)),
        None => format!("known are 64MiB, 80KiB/s, {}", TERMS.join(", ")),
    }
}

fn written(term: &str) -> &'static str {
    match term {
        "fill" => "`fill 100MiB tau 60s`",
        "saw" => "`saw 10MiB period 30s`",
        "step" => "`step 20MiB at 60s`",
        "noise" => "`noise 1%`",
        "spread" => "`spread 5%`",
        "cpu" => "`cpu 30%`",
        "faults" => "`faults 200/s`",
        "latency" => "`latency 2ms`",
        "pause" => "`pause 40ms every 15s`",
        "ready" => "`ready after 3s`",
        "never" => "`never ready`",
        "crash" => "`crash at 90s`",
        "exit" => "`exit at 90s`",
        "oom" => "`oom at 1GiB`",
        _ => "`hang at 50s`",
    }
}

fn bytes(text: &str) -> Result<f64, String> {
    Ok(parse_bytes(text)? as f64)
}

/// `200/s`.
fn parse_per_second(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix("/s")
        .and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err(format!("{} is not a rate; write 200/s", quoted(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_is_read_as_the_error_message_writes_it() {
        for term in TERMS {
            let example = written(term).trim_matches('`');
            assert!(example.starts_with(term), "{term}");
            let curve = Curve::parse(example).unwrap_or_else(|why| panic!("{example}: {why}"));
            assert_ne!(curve, Curve::default(), "{example} changes nothing");
        }
    }

    #[test]
    fn terms_combine_in_any_order() {
        let one = Curve::parse("64MiB + 80KiB/s + noise 1% + cpu 30%").unwrap();
        let other = Curve::parse("cpu 30%+noise 1% +80KiB/s+ 32MiB + 32 MiB").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.slope_per_s, 81_920.0);
    }

    #[test]
    fn errors_say_which_term_and_how_it_is_written() {
        let cases = [
            (
                "64MiB + stp 20MiB at 60s",
                "did you mean `step 20MiB at 60s`?",
            ),
            ("saw 10MiB", "`saw` is written `saw 10MiB period 30s`"),
            ("grow 1MiB", "known are 64MiB"),
            ("64MiB +", "nothing stands"),
            ("", "nothing stands"),
            ("64Quux", "64Quux"),
            ("noise 1", "percentage"),
            ("faults many", "200/s"),
            ("saw 1MiB period 0s", "no shape"),
            ("pause 2s every 1s", "as long as"),
            ("crash at 90", "no unit"),
        ];
        for (text, expected) in cases {
            let why = Curve::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}

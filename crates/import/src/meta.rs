//! The file beside a series: `id,limit_kib,restarts_s`, restarts with `;` between them.

use std::collections::BTreeMap;
use std::io::Read;

use super::headings::{factor_of_word, words_of};
use super::number::Numbers;
use super::time::{Moment, parse_moment};
use super::{ImportError, SideFile};

/// What is known of one series besides its readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta {
    pub limit_bytes: Option<f64>,
    pub restarts_s: Vec<f64>,
}

/// Reads the file; ids must be unique.
pub fn parse_meta(input: impl Read) -> Result<BTreeMap<String, Meta>, ImportError> {
    let mut file = SideFile::open(input)?;
    let Some(id) = file.find(&["id", "process", "nickname", "series"]) else {
        return Err(ImportError::new(
            1,
            0,
            "no id column",
            "give id,limit_kib,restarts_s",
        ));
    };
    let begins = |word: &str| file.header.iter().position(|n| n.starts_with(word));
    let (limit, restarts) = (
        begins("limit").or_else(|| begins("memory")),
        begins("restart"),
    );
    let unit = limit.and_then(|at| words_of(&file.header[at]).unit);
    let factor = unit.as_deref().and_then(factor_of_word).unwrap_or(1.0);
    let mut all = BTreeMap::new();
    let mut record = csv::StringRecord::new();
    while let Some(line) = file.next(&mut record)? {
        let meta = Meta {
            limit_bytes: limit_of(&record, limit, factor, line)?,
            restarts_s: restarts_of(&record, restarts, line)?,
        };
        let name = record.get(id).unwrap_or("").to_owned();
        if all.insert(name.clone(), meta).is_some() {
            let what = format!("{name} for the second time");
            return Err(ImportError::new(
                line,
                id,
                what,
                "leave one line for each id",
            ));
        }
    }
    Ok(all)
}

fn limit_of(
    record: &csv::StringRecord,
    place: Option<usize>,
    factor: f64,
    line: u64,
) -> Result<Option<f64>, ImportError> {
    let Some((place, text)) = place.and_then(|p| Some((p, record.get(p)?))) else {
        return Ok(None);
    };
    if text.is_empty() {
        return Ok(None);
    }
    let mut numbers = Numbers {
        comma_parts_thousands: true,
        unit_said: true,
        ..Numbers::default()
    };
    match numbers.read(text, factor) {
        Ok(limit) if limit > 0.0 && limit.is_finite() => Ok(Some(limit)),
        Ok(missing) if missing.is_nan() => Ok(None),
        _ => Err(ImportError::new(
            line,
            place,
            format!("{text:?} is no limit"),
            "leave it empty if unknown",
        )),
    }
}

fn restarts_of(
    record: &csv::StringRecord,
    place: Option<usize>,
    line: u64,
) -> Result<Vec<f64>, ImportError> {
    let Some((place, text)) = place.and_then(|p| Some((p, record.get(p)?))) else {
        return Ok(Vec::new());
    };
    text.split(';')
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(|t| {
            let t_s = match parse_moment(t, None) {
                Ok((Moment::At(t_s), _)) => Some(t_s),
                _ => None,
            };
            t_s.ok_or_else(|| {
                ImportError::new(
                    line,
                    place,
                    format!("{t:?} is no time"),
                    "separate times by ;",
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_restarts() {
        let m = parse_meta("id,limit_kib,restarts_s\na,100,5;7.5\nb,,\n".as_bytes()).unwrap();
        assert_eq!(
            m["a"],
            Meta {
                limit_bytes: Some(102_400.0),
                restarts_s: vec![5.0, 7.5]
            }
        );
        assert_eq!(m["b"], Meta::default());
        let e = parse_meta("id,limit_kib,restarts_s\na,100,5;x\n".as_bytes()).unwrap_err();
        assert_eq!((e.line, e.column), (2, 3));
        let e = parse_meta("id,limit_kib\na,1\na,2\n".as_bytes()).unwrap_err();
        assert_eq!((e.line, e.column), (3, 1));
        assert!(parse_meta("".as_bytes()).is_err());
        let m = parse_meta(
            "\u{feff}ID;Limit (MiB);Restarts\na;1,5;2026-01-01 00:00:00\nb;2 GiB;\n".as_bytes(),
        )
        .unwrap();
        assert_eq!(m["a"].limit_bytes, Some(1.5 * 1_048_576.0));
        assert_eq!(m["a"].restarts_s, [1_767_225_600.0]);
        assert_eq!(m["b"].limit_bytes, Some(2.0 * 1_073_741_824.0));
    }
}

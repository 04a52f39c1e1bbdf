//! The file beside a series: `id,limit_kib,restarts_s`, restarts with `;` between them.

use std::collections::BTreeMap;
use std::io::Read;

use super::columns::unit_factor;
use super::time::parse_instant;
use super::{ImportError, broken, side_file};

/// What is known of one series besides its readings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta {
    pub limit_bytes: Option<f64>,
    pub restarts_s: Vec<f64>,
}

/// Reads the file; ids must be unique.
pub fn parse_meta(input: impl Read) -> Result<BTreeMap<String, Meta>, ImportError> {
    let mut reader = side_file(input);
    let header = reader.headers().map_err(broken)?.clone();
    let Some(id) = header.iter().position(|n| n == "id") else {
        return Err(ImportError::new(
            1,
            0,
            "no id column",
            "give id,limit_kib,restarts_s",
        ));
    };
    let limit = header.iter().position(|n| n.starts_with("limit"));
    let factor = limit
        .and_then(|i| header.get(i))
        .and_then(|n| unit_factor(n.rsplit('_').next().unwrap_or("")))
        .unwrap_or(1.0);
    let restarts = header.iter().position(|n| n.starts_with("restarts"));
    let mut all = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let meta = Meta {
            limit_bytes: limit_of(&record, limit, line)?.map(|l| l * factor),
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
    line: u64,
) -> Result<Option<f64>, ImportError> {
    let Some((place, text)) = place.and_then(|p| Some((p, record.get(p)?))) else {
        return Ok(None);
    };
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(limit) if limit > 0.0 => Ok(Some(limit)),
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
            parse_instant(t).ok_or_else(|| {
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
    }
}

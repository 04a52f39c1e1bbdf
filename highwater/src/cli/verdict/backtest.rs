//! A backtest, for people and as JSON.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use verdict::backtest::{Backtest, Row};

/// The schema of the line.
pub const SCHEMA: &str = "highwater.backtest/1";

const HEADER: [&str; 8] = [
    "forecast by",
    "series",
    "within 95 %",
    "width",
    "score",
    "crps",
    "called growing",
    "of them rose",
];

/// A table, with what its columns are.
///
/// # Errors
/// `out` takes no more.
pub fn write(all: &Backtest, out: &mut impl Write) -> io::Result<()> {
    let (series, rose) = (all.series, all.rose);
    writeln!(
        out,
        "{series} series, of which the level rose by 3 % or more in {rose}; {} with too few readings; the forecasts of \
         {} are compared",
        all.left_out, all.compared
    )?;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER);
    for row in &all.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.to_string().lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(
        out,
        "within 95 %: share of levels within the interval; width: its median; score: its mean interval score; crps: \
         mean ranked probability score; all in % of the level, and of the last three less is better"
    )
}

fn cells(row: &Row) -> [String; 8] {
    let percent = |share: f64| match row.forecasts {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", 100.0 * share),
    };
    [
        row.name.clone(),
        match row.forecasts {
            0 => "-".to_owned(),
            forecasts => forecasts.to_string(),
        },
        percent(row.covered),
        percent(row.width),
        percent(row.interval_score),
        percent(row.crps),
        row.called.to_string(),
        row.called_rose.to_string(),
    ]
}

/// One object.
pub fn line(all: &Backtest) -> Value {
    json!({
        "schema": SCHEMA,
        "series": all.series,
        "left_out": all.left_out,
        "compared": all.compared,
        "rose": all.rose,
        "rows": all.rows,
    })
}

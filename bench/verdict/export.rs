//! The series as files: series.csv and meta.csv as `highwater verdict` reads them, truth.csv with what is true of each.

use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use crate::dice::Dice;
use crate::family::Kind;
use crate::made;

pub fn write(folder: &Path, kinds: &[Kind], seed: u64, each: u64) -> Result<()> {
    create_dir_all(folder)?;
    let open =
        |name: &str| Ok::<_, std::io::Error>(BufWriter::new(File::create(folder.join(name))?));
    let (mut series, mut meta, mut truth) =
        (open("series.csv")?, open("meta.csv")?, open("truth.csv")?);
    writeln!(series, "id,t_s,rss_kib")?;
    writeln!(meta, "id,limit_kib,restarts_s")?;
    writeln!(truth, "id,family,labels,slope_bytes_per_hour")?;
    for (name, family) in kinds.iter().flat_map(|kind| &kind.families) {
        for number in 0..each {
            let case = made::make(family, &mut Dice::of(seed, name, number));
            let id = format!("{name}-{number}");
            for point in case.series.points.iter().filter(|p| p.value.is_finite()) {
                writeln!(series, "{id},{:.3},{:.0}", point.t_s, point.value / 1024.0)?;
            }
            let limit = case
                .series
                .limit
                .map_or(String::new(), |limit| format!("{:.0}", limit / 1024.0));
            let restarts = case.series.restarts_s.iter().map(|t| format!("{t:.3}"));
            writeln!(
                meta,
                "{id},{limit},{}",
                restarts.collect::<Vec<_>>().join(";")
            )?;
            let labels = case.truth.accept.iter().map(|label| label.word());
            let slope = case
                .truth
                .slope_per_hour
                .map_or(String::new(), |slope| format!("{slope:.6e}"));
            writeln!(
                truth,
                "{id},{name},{},{slope}",
                labels.collect::<Vec<_>>().join("|")
            )?;
        }
    }
    Ok(())
}

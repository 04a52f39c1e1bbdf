//! The `meta` table: what is true of the run as a whole.

use rusqlite::{Connection, OptionalExtension};

use super::run::{Machine, RunEnd};
use observe::clock::Anchor;
use observe::snapshot::TimeNs;

/// Keys of the table. Times are nanoseconds since the Unix epoch on the run's clock.
pub(super) const EXPERIMENT: &str = "experiment";
pub(super) const HIGHWATER: &str = "highwater.version";
const BEGUN: &str = "clock.begun";
const BOOTTIME: &str = "clock.boottime_ns";
const BOOT_ID: &str = "clock.boot_id";
const END_TIME: &str = "end.time";
const END_WORDS: &str = "end.words";

pub(super) fn write(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value";
    db.execute(sql, (key, value)).map(|_| ())
}

pub(super) fn read(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| {
        row.get(0)
    })
    .optional()
}

/// A number; absent and unreadable count as the same damage.
fn number(db: &Connection, key: &str) -> rusqlite::Result<i64> {
    db.query_row(
        "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?",
        [key],
        |row| row.get(0),
    )
}

pub(super) fn write_clock(db: &Connection, clock: &Anchor) -> rusqlite::Result<()> {
    write(db, BEGUN, &clock.wall_ns.to_string())?;
    write(db, BOOTTIME, &clock.boottime_ns.to_string())?;
    write(db, BOOT_ID, &clock.boot_id)
}

pub(super) fn read_clock(db: &Connection) -> rusqlite::Result<Anchor> {
    Ok(Anchor {
        wall_ns: number(db, BEGUN)?,
        boottime_ns: number(db, BOOTTIME)?,
        boot_id: read(db, BOOT_ID)?.unwrap_or_default(),
    })
}

pub(super) fn write_end(db: &Connection, end: &RunEnd) -> rusqlite::Result<()> {
    write(db, END_TIME, &end.time.0.to_string())?;
    write(db, END_WORDS, &end.words)
}

pub(super) fn clear_end(db: &Connection) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM meta WHERE key IN (?, ?)",
        (END_TIME, END_WORDS),
    )
    .map(|_| ())
}

pub(super) fn read_end(db: &Connection) -> rusqlite::Result<Option<RunEnd>> {
    let Some(words) = read(db, END_WORDS)? else {
        return Ok(None);
    };
    Ok(Some(RunEnd {
        time: TimeNs(number(db, END_TIME)?),
        words,
    }))
}

pub(super) fn write_machine(db: &Connection, machine: &Machine) -> rusqlite::Result<()> {
    let Machine {
        kernel,
        cpu,
        cpus,
        memory_bytes,
        distribution,
        transparent_huge_pages,
    } = machine;
    write(db, "machine.kernel", kernel)?;
    write(db, "machine.cpu", cpu)?;
    write(db, "machine.cpus", &cpus.to_string())?;
    write(db, "machine.memory_bytes", &memory_bytes.to_string())?;
    write(db, "machine.distribution", distribution)?;
    write(db, "machine.transparent_huge_pages", transparent_huge_pages)
}

pub(super) fn read_machine(db: &Connection) -> rusqlite::Result<Machine> {
    let text = |key: &str| Ok::<_, rusqlite::Error>(read(db, key)?.unwrap_or_default());
    Ok(Machine {
        kernel: text("machine.kernel")?,
        cpu: text("machine.cpu")?,
        cpus: text("machine.cpus")?.parse().unwrap_or(0),
        memory_bytes: text("machine.memory_bytes")?.parse().unwrap_or(0),
        distribution: text("machine.distribution")?,
        transparent_huge_pages: text("machine.transparent_huge_pages")?,
    })
}

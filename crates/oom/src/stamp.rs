//! The stamp in front of a line: the kernel's seconds since boot, or a wall clock in the forms of dmesg, journalctl and
//! syslog.

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::kill::At;
use units::instant::parse_instant;

/// Syslog's dates have no year: one further ahead than this is of the year before. Clocks of two machines differ.
const AHEAD_MAX_S: f64 = 86_400.0;

/// What a stamp without a zone or a year is read against.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Seconds since 1970, UTC.
    pub now_s: f64,
    /// Of local times.
    pub zone: TimeZone,
    /// The wall clock at the zero of the kernel's stamps, where the log is this machine's own.
    pub boot_wall_s: Option<f64>,
}

impl Clock {
    /// Of a kernel's stamp.
    pub fn at_boot(&self, boot_s: f64) -> At {
        At {
            wall_s: self.boot_wall_s.map(|zero| zero + boot_s),
            boot_s: Some(boot_s),
        }
    }

    fn local(&self, time: DateTime) -> Option<f64> {
        let zoned = time.to_zoned(self.zone.clone()).ok()?;
        Some(zoned.timestamp().as_millisecond() as f64 / 1e3)
    }

    /// The stamp of a line, and what follows it.
    pub fn stamp<'a>(&self, line: &'a str) -> Option<(At, &'a str)> {
        self.bracket(line)
            .or_else(|| self.syslog(line))
            .or_else(|| iso(line))
            .or_else(|| self.full(line))
            .or_else(|| unix(line))
    }

    /// `[    6.375519] `, with `[ T156]` behind it where the kernel tells threads apart, or `[Fri Nov 27 06:42:17
    /// 2026] `.
    pub fn bracket<'a>(&self, line: &'a str) -> Option<(At, &'a str)> {
        // dmesg --raw has the priority in front.
        let line = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((priority, rest)) if priority.bytes().all(|b| b.is_ascii_digit()) => rest,
            _ => line,
        };
        let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if let Some(boot_s) = seconds(stamp.trim()) {
            return Some((self.at_boot(boot_s), without_caller(rest)));
        }
        let time = strtime::parse("%a %b %d %H:%M:%S %Y", stamp).ok()?;
        let wall_s = self.local(time.to_datetime().ok()?);
        Some((
            At {
                wall_s,
                boot_s: None,
            },
            without_caller(rest),
        ))
    }

    /// `Nov 27 06:42:17 ` or `Nov 27 06:42:17.123456 `.
    fn syslog<'a>(&self, line: &'a str) -> Option<(At, &'a str)> {
        let (day, rest) = (line.get(..6)?, line.get(6..)?.strip_prefix(' ')?);
        if !line.as_bytes()[0].is_ascii_uppercase() {
            return None;
        }
        let (time, rest) = rest.split_once(' ')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let now = jiff::Timestamp::from_millisecond((self.now_s * 1e3) as i64).ok()?;
        let year = now.to_zoned(self.zone.clone()).year();
        let of_year = |year: i16| {
            let text = format!("{year} {} {time}", day.replace("  ", " "));
            let time = strtime::parse("%Y %b %d %H:%M:%S", &text).ok()?;
            self.local(time.to_datetime().ok()?)
        };
        let wall_s = match of_year(year) {
            Some(wall_s) if wall_s <= self.now_s + AHEAD_MAX_S => wall_s,
            // The 29th of February of the year before, too.
            _ => of_year(year - 1)?,
        };
        let fraction = format!("0.{fraction}").parse().unwrap_or(0.0);
        Some((wall(wall_s + fraction), rest))
    }

    /// `Fri 2026-11-27 06:42:17 UTC `, as `journalctl -o short-full` writes it.
    fn full<'a>(&self, line: &'a str) -> Option<(At, &'a str)> {
        let mut parts = line.splitn(5, ' ');
        let (_, date, time) = (parts.next()?, parts.next()?, parts.next()?);
        let (zone, rest) = (parts.next()?, parts.next()?);
        if date.len() != 10 || time.as_bytes().get(2) != Some(&b':') {
            return None;
        }
        let time: DateTime = format!("{date}T{time}").parse().ok()?;
        let wall_s = match zone {
            "UTC" | "GMT" => Clock {
                zone: TimeZone::UTC,
                ..self.clone()
            }
            .local(time),
            // A name such as CET is not unique: it is taken for the zone of this machine.
            _ => self.local(time),
        };
        Some((wall(wall_s?), rest))
    }
}

/// `2026-11-27T06:42:17+0000 `, with a fraction behind a point or a comma.
fn iso(line: &str) -> Option<(At, &str)> {
    if !line.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    let (stamp, rest) = line.split_once(' ')?;
    if stamp.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    Some((wall(parse_instant(&stamp.replace(',', "."))?), rest))
}

/// `1764225737.123456 `, as `journalctl -o short-unix` writes it.
fn unix(line: &str) -> Option<(At, &str)> {
    let (stamp, rest) = line.split_once(' ')?;
    let wall_s = seconds(stamp).filter(|seconds| *seconds > 1e8)?;
    Some((wall(wall_s), rest))
}

fn wall(wall_s: f64) -> At {
    At {
        wall_s: Some(wall_s),
        boot_s: None,
    }
}

/// Digits, a point, digits: a number of a row of tasks has no point.
fn seconds(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(whole) && is_number(fraction)).then(|| text.parse().ok())?
}

/// CONFIG_PRINTK_CALLER: `[    T1] ` or `[ C0] `.
fn without_caller(text: &str) -> &str {
    let caller = || {
        let (caller, rest) = text.strip_prefix('[')?.split_once("] ")?;
        let number = caller.trim_start().strip_prefix(['T', 'C'])?;
        number.bytes().all(|b| b.is_ascii_digit()).then_some(rest)
    };
    caller().unwrap_or(text)
}

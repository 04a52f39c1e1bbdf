//! What our metrics are called outside, in OpenMetrics: `highwater_` before the name, base units (seconds, bytes),
//! `_total` behind a counter. `observe` writes these names, and a run with remote arms reads them back.

use crate::metric::{ALL, Kind, Metric};

/// Every name of ours begins so.
pub const PREFIX: &str = "highwater_";
/// When a process started, seconds since the epoch.
pub const START_TIME: &str = "highwater_start_time_seconds";
/// Whether it makes progress: 1 or 0.
pub const ALIVE: &str = "highwater_alive";
/// What answers malloc in a process, in labels; always 1.
pub const ALLOCATOR: &str = "highwater_allocator";

/// A metric's family outside, and what its values are multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub struct Exposed {
    /// Without `_total`.
    pub family: String,
    /// `bytes`, `seconds` or none; the family ends with it.
    pub unit: &'static str,
    pub scale: f64,
}

impl Exposed {
    pub fn of(metric: &Metric) -> Exposed {
        let (name, unit, scale) = match metric.name.strip_suffix("_ns") {
            Some(name) => (format!("{name}_seconds"), "seconds", 1e-9),
            None if metric.name.ends_with("_bytes") => (metric.name.to_owned(), "bytes", 1.0),
            None => (metric.name.to_owned(), "", 1.0),
        };
        Exposed {
            family: format!("{PREFIX}{name}"),
            unit,
            scale,
        }
    }

    /// The name of its samples.
    pub fn sample(&self, kind: Kind) -> String {
        match kind {
            Kind::Counter => format!("{}_total", self.family),
            Kind::Gauge => self.family.clone(),
        }
    }

    /// A value as it is written outside.
    pub fn out(&self, value: f64) -> f64 {
        // Nanoseconds are whole: division keeps 1.5 s what multiplication would make 1.5000000000000002.
        match self.scale {
            1e-9 => value / 1e9,
            s => value * s,
        }
    }

    /// A value from outside in our own unit.
    pub fn back(&self, value: f64) -> f64 {
        match self.scale {
            1e-9 => (value * 1e9).round(),
            s => value / s,
        }
    }
}

/// The metric of ours that samples of this name are.
pub fn find_exposed(sample: &str) -> Option<(&'static Metric, Exposed)> {
    let of = |metric: &'static Metric| (metric, Exposed::of(metric));
    ALL.iter()
        .map(of)
        .find(|(metric, exposed)| exposed.sample(metric.kind) == sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric;

    #[test]
    fn names_follow_the_rules_and_come_back() {
        let cpu = Exposed::of(&metric::CPU_USER);
        assert_eq!(
            (cpu.sample(Kind::Counter).as_str(), cpu.unit),
            ("highwater_cpu_user_seconds_total", "seconds")
        );
        assert_eq!(cpu.out(1.5e9), 1.5);
        assert_eq!(cpu.back(1.5), 1.5e9);
        for own in ALL {
            let exposed = Exposed::of(own);
            let name = exposed.sample(own.kind);
            assert!(exposed.family.ends_with(exposed.unit), "{name}");
            let (found, _) = find_exposed(&name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(found.name, own.name);
        }
        assert_eq!(find_exposed("highwater_rss_bytes_total"), None);
    }
}

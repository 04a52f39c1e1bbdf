//! What the environment may set. Pure: the caller reads the environment.

/// How bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// Exact while it costs less than its share, then sampled.
    Auto,
    /// Exact, whatever it costs.
    Exact,
    /// Calls are exact, bytes come from samples.
    Sampled,
}

/// Settings of the probe.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `HIGHWATER_PROBE=off` switches it off.
    pub on: bool,
    /// `HIGHWATER_PROBE_CAP`: bytes, with an optional K or M.
    pub cap_bytes: usize,
    /// `HIGHWATER_PROBE_BYTES`: auto, exact or sampled.
    pub bytes: Bytes,
    /// `HIGHWATER_PROBE_MEAN`: a fixed mean distance of samples in bytes instead of one that
    /// follows the load.
    pub mean_bytes: Option<u64>,
    /// `HIGHWATER_PROBE_BUDGET`: most that the probe may take of the process's CPU time, percent; 0
    /// is no limit.
    pub budget_ppm: u64,
    /// `HIGHWATER_PROBE_PAIR`: what a malloc and its free lose to counting, picoseconds, as highwater measured it on
    /// this machine; 0 is unknown, and counting is then outside of the budget.
    pub pair_ps: u64,
    /// `HIGHWATER_PROBE_FILTERS`: seccomp filters that the program may have from before its start. They are those of
    /// who starts it, and so allow the probe's calls; further ones are not known.
    pub filters: u64,
    /// `HIGHWATER_PROBE_SEED`: of the sampler; by default the clock.
    pub seed: Option<u64>,
}

/// The default cap.
const CAP_BYTES: usize = 8 << 20;
const CAP_BYTES_MAX: usize = 1 << 30;
/// 3 %: sampling costs under 1 % of a core by its rate, so only something that went wrong gets
/// there.
const BUDGET_PPM: u64 = 30_000;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            on: true,
            cap_bytes: CAP_BYTES,
            bytes: Bytes::Auto,
            mean_bytes: None,
            budget_ppm: BUDGET_PPM,
            pair_ps: 0,
            filters: 0,
            seed: None,
        }
    }
}

impl Settings {
    /// Takes over one variable; a value that it does not understand leaves the default, since there
    /// is nobody to tell.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"HIGHWATER_PROBE" => self.on = value != b"off" && value != b"0",
            b"HIGHWATER_PROBE_CAP" => {
                let bytes = size(value).map(|bytes| (bytes as usize).min(CAP_BYTES_MAX));
                self.cap_bytes = bytes.unwrap_or(self.cap_bytes);
            }
            b"HIGHWATER_PROBE_BYTES" => {
                self.bytes = match value {
                    b"exact" => Bytes::Exact,
                    b"sampled" => Bytes::Sampled,
                    _ => Bytes::Auto,
                }
            }
            b"HIGHWATER_PROBE_MEAN" => self.mean_bytes = size(value).filter(|mean| *mean > 0),
            b"HIGHWATER_PROBE_BUDGET" => {
                self.budget_ppm = percent_ppm(value).unwrap_or(self.budget_ppm)
            }
            b"HIGHWATER_PROBE_PAIR" => self.pair_ps = size(value).unwrap_or(0),
            b"HIGHWATER_PROBE_FILTERS" => self.filters = size(value).unwrap_or(0),
            b"HIGHWATER_PROBE_SEED" => self.seed = size(value),
            _ => {}
        }
    }
}

/// `512`, `64K`, `8M`; `None` when it is anything else.
fn size(value: &[u8]) -> Option<u64> {
    let (digits, unit) = match value.split_last()? {
        (b'k' | b'K', digits) => (digits, 1 << 10),
        (b'm' | b'M', digits) => (digits, 1 << 20),
        _ => (value, 1),
    };
    std::str::from_utf8(digits)
        .ok()?
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
}

/// `3`, `0.5`, `3%` as parts per million.
fn percent_ppm(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim_end_matches('%');
    let percent: f64 = text.parse().ok()?;
    (0.0..=100.0)
        .contains(&percent)
        .then_some((percent * 10_000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Settings {
        let mut settings = Settings::default();
        settings.set(name.as_bytes(), value.as_bytes());
        settings
    }

    #[test]
    fn values_are_understood() {
        assert!(!with("HIGHWATER_PROBE", "off").on);
        assert_eq!(with("HIGHWATER_PROBE_CAP", "4M").cap_bytes, 4 << 20);
        assert_eq!(with("HIGHWATER_PROBE_MEAN", "64k").mean_bytes, Some(65_536));
        assert_eq!(with("HIGHWATER_PROBE_BUDGET", "0.5%").budget_ppm, 5_000);
        assert_eq!(with("HIGHWATER_PROBE_BYTES", "exact").bytes, Bytes::Exact);
        assert_eq!(with("HIGHWATER_PROBE_SEED", "42").seed, Some(42));
        assert_eq!(with("HIGHWATER_PROBE_PAIR", "4200").pair_ps, 4_200);
        assert_eq!(with("HIGHWATER_PROBE_FILTERS", "2").filters, 2);
    }

    #[test]
    fn nonsense_leaves_the_default() {
        for value in ["", "x", "-1", "99999999999999999999M", "M"] {
            assert_eq!(
                with("HIGHWATER_PROBE_CAP", value).cap_bytes,
                CAP_BYTES,
                "{value:?}"
            );
            assert_eq!(
                with("HIGHWATER_PROBE_BUDGET", value).budget_ppm,
                BUDGET_PPM,
                "{value:?}"
            );
        }
        assert_eq!(with("HIGHWATER_PROBE_MEAN", "0").mean_bytes, None);
        assert_eq!(
            with("HIGHWATER_PROBE_CAP", "999999M").cap_bytes,
            CAP_BYTES_MAX
        );
    }
}

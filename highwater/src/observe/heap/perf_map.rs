//! `/tmp/perf-PID.map`: names of code that was made while the program ran.

/// Names by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// (start, end, name) by start. Where code was replaced, the later name comes last.
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self
            .entries
            .partition_point(|&(start, ..)| start <= address);
        let (_, end, name) = self.entries.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

/// Lines of `START SIZE NAME`, hexadecimal; others are left out.
pub fn parse_perf_map(text: &str) -> PerfMap {
    let entry = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || {
            let word = words.next()?.trim_start_matches("0x");
            u64::from_str_radix(word, 16).ok()
        };
        let (start, size) = (number()?, number()?);
        Some((start, start.checked_add(size)?, words.next()?.to_owned()))
    };
    let mut entries: Vec<_> = text.lines().filter_map(entry).collect();
    entries.sort_by_key(|&(start, ..)| start);
    PerfMap { entries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_address_and_strange_lines_left_out() {
        let text =
            "7f00 10 py::leak:/srv/app.py\nnonsense\n7f10 zz x\n7e00 8 old\n7e00 8 new one\n";
        let map = parse_perf_map(text);
        assert_eq!(map.find(0x7f0f), Some("py::leak:/srv/app.py"));
        assert_eq!(map.find(0x7e00), Some("new one"));
        assert_eq!(map.find(0x7e08), None);
        assert_eq!(map.find(0x7f10), None);
        assert_eq!(map.find(0), None);
    }
}

//! What was seen of a thread, from record to record.

use crate::event::Wait;

/// A wait for a device that was told with its stack.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    pub at_ns: u64,
    pub wait: Wait,
}

/// Since when a thread is on a CPU, and at most was taken off it in between.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtWork {
    pub since_ns: u64,
    pub only_preempted: bool,
}

impl AtWork {
    pub fn came(&mut self, at_ns: u64) {
        if !self.only_preempted {
            self.since_ns = at_ns;
        }
    }
}

/// By the kernel's own count, since the thread began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counts {
    pub on_cpu_ns: u64,
    pub run_delay_ns: u64,
}

/// The first two numbers of a schedstat file.
pub fn parse_counts(text: &str) -> Option<Counts> {
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some(Counts {
        on_cpu_ns: numbers.next()?,
        run_delay_ns: numbers.next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_first_two_numbers() {
        let counts = Counts {
            on_cpu_ns: 1059,
            run_delay_ns: 330,
        };
        assert_eq!(parse_counts("1059 330 4\n"), Some(counts));
        assert_eq!(parse_counts("1059"), None);
        assert_eq!(parse_counts(""), None);
    }
}

//! A long window in pages that a server will answer: shorter when it says too much, longer while they are
//! nearly empty.

/// A page should hold about so many readings: 30 MB of JSON.
const READINGS_WANTED: usize = 1_000_000;
/// The first page of a window read raw.
const FIRST_MS: i64 = 3_600_000;
/// Raw pages shorter than this are not worth a request.
const LEAST_MS: i64 = 10_000;
/// Steps of one range query: Prometheus takes 11,000 and refuses more.
const STEPS_MAX: i64 = 11_000;
/// Steps of the first page of a range query.
const FIRST_STEPS: i64 = 2_000;

/// One page: both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub from_ms: i64,
    pub to_ms: i64,
}

/// What is left of a window.
#[derive(Debug, Clone)]
pub struct Pages {
    from_ms: i64,
    end_ms: i64,
    length_ms: i64,
    least_ms: i64,
    most_ms: i64,
    /// From the end of a page to the beginning of the next.
    stride_ms: i64,
}

impl Pages {
    /// Of a window read raw.
    pub fn raw(start_ms: i64, end_ms: i64) -> Pages {
        Pages {
            from_ms: start_ms,
            end_ms,
            length_ms: FIRST_MS,
            least_ms: LEAST_MS,
            most_ms: i64::MAX / 8,
            stride_ms: 0,
        }
    }

    /// Of a range query with a step.
    pub fn stepped(start_ms: i64, end_ms: i64, step_ms: i64) -> Pages {
        Pages {
            from_ms: start_ms,
            end_ms,
            length_ms: FIRST_STEPS * step_ms,
            least_ms: step_ms,
            most_ms: (STEPS_MAX - 1) * step_ms,
            stride_ms: step_ms,
        }
    }

    /// The page to ask for now; `None` when all is read.
    pub fn page(&self) -> Option<Page> {
        // A raw page that ends where the window does is the last; a stepped one begins a step further.
        (self.from_ms < self.end_ms || (self.stride_ms > 0 && self.from_ms == self.end_ms)).then(
            || Page {
                from_ms: self.from_ms,
                to_ms: self.from_ms.saturating_add(self.length_ms).min(self.end_ms),
            },
        )
    }

    /// The page held so many readings: on to the next.
    pub fn read(&mut self, page: Page, readings: usize) {
        self.from_ms = page.to_ms.saturating_add(self.stride_ms);
        let times = match readings {
            n if n < READINGS_WANTED / 8 => 4,
            n if n < READINGS_WANTED / 3 => 2,
            _ => 1,
        };
        self.length_ms = self.length_ms.saturating_mul(times).min(self.most_ms);
        if readings > 2 * READINGS_WANTED {
            self.shrink();
        }
    }

    /// Asks for less at a time; false when it is as little as can be.
    pub fn shrink(&mut self) -> bool {
        let shorter = (self.length_ms / 4).max(self.least_ms);
        let steps = shorter / self.stride_ms.max(1) * self.stride_ms.max(1);
        std::mem::replace(&mut self.length_ms, steps) > steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stepped_pages_hold_every_step_once_and_no_more_than_the_server_takes() {
        for (steps, refuse) in [
            (0, 0),
            (1, 0),
            (10_999, 0),
            (11_000, 0),
            (30_000, 0),
            (30_000, 3),
        ] {
            let mut pages = Pages::stepped(500, 500 + steps * 60_000, 60_000);
            let (mut next, mut refused) = (500, 0);
            while let Some(page) = pages.page() {
                if refused < refuse {
                    refused += 1;
                    assert!(pages.shrink());
                    continue;
                }
                assert_eq!(page.from_ms, next);
                assert_eq!((page.to_ms - page.from_ms) % 60_000, 0);
                assert!((page.to_ms - page.from_ms) / 60_000 < STEPS_MAX);
                next = page.to_ms + 60_000;
                pages.read(page, 10);
            }
            assert_eq!(next, 500 + (steps + 1) * 60_000);
        }
    }

    #[test]
    fn raw_pages_meet_grow_when_empty_and_shrink_when_full() {
        let mut pages = Pages::raw(0, 30 * 86_400_000);
        let (mut end, mut count) = (0, 0);
        while let Some(page) = pages.page() {
            assert_eq!(page.from_ms, end);
            (end, count) = (page.to_ms, count + 1);
            pages.read(page, 0);
        }
        assert_eq!((end, count < 8), (30 * 86_400_000, true));
        let mut pages = Pages::raw(0, 86_400_000);
        let long = pages.page().unwrap();
        pages.read(long, 5 * READINGS_WANTED);
        let next = pages.page().unwrap();
        assert!(next.to_ms - next.from_ms < long.to_ms - long.from_ms);
        while pages.shrink() {}
        let least = pages.page().unwrap();
        assert_eq!(least.to_ms - least.from_ms, LEAST_MS);
    }
}

//! What each area of an address space is: the parts of the account, before the heap is divided.
//!
//! An anonymous area may be several things at once, because the kernel joins neighbours; so ranges
//! are classed, not areas. Evidence, strongest first: the probe's own memory; a stack that was proved;
//! mappings that the program asked for by itself; glibc's own headers; mappings that the allocator
//! asked for; a sampled live block in what is left of an area; having been heap at an earlier snapshot.

use heap::HeapSnapshot;
use heap::probe::{ProbeSnapshot, Region};
use heap::smaps::Area;
use heap::stacks::StackArea;

/// What a range of addresses is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Heap,
    Stack,
    Anonymous,
    File,
    Shared,
    Probe,
}

/// A classed range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    pub class: Class,
    pub rss_bytes: u64,
    /// Start of the area that it lies in.
    pub area: u64,
    /// The probe, or glibc's headers, vouch for it.
    pub covered: bool,
    /// Key of the stack that mapped it, when the program did so directly, or started the thread whose stack it is;
    /// else 0.
    pub mapped_by: u64,
}

/// Ranges that were heap at an earlier snapshot: memory that an allocator holds may have no live block.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    heap: Vec<(u64, u64)>,
}

/// Classes every area of a snapshot.
pub fn class_areas(snapshot: &HeapSnapshot, remembered: &mut Remembered) -> Vec<Range> {
    let mut ranges = Vec::new();
    let blocks = snapshot.probe.iter().flat_map(|probe| &probe.blocks);
    let mut sampled: Vec<u64> = blocks.map(|block| block.address).collect();
    sampled.sort_unstable();
    let evidence = Evidence {
        snapshot,
        sampled,
        by_headers: is_told_by_headers(snapshot),
    };
    for (index, area) in snapshot.areas.iter().enumerate() {
        if area.rss_bytes == 0 {
            continue;
        }
        let below = index.checked_sub(1).map(|below| &snapshot.areas[below]);
        match class_of_area(snapshot, area, below) {
            Some(class) => ranges.push(whole(area, class)),
            None => evidence.divide(area, remembered, &mut ranges),
        }
    }
    let heap = ranges.iter().filter(|range| range.class == Class::Heap);
    remembered.heap = heap.map(|range| (range.start, range.end)).collect();
    ranges
}

fn whole(area: &Area, class: Class) -> Range {
    let covered = matches!(class, Class::Probe | Class::Stack);
    Range {
        start: area.start,
        end: area.end,
        class,
        rss_bytes: area.rss_bytes,
        area: area.start,
        covered,
        mapped_by: 0,
    }
}

/// The class of an area that is one thing throughout; `None` for one that must be divided.
fn class_of_area(snapshot: &HeapSnapshot, area: &Area, below: Option<&Area>) -> Option<Class> {
    let name = area.name.trim_end_matches(" (deleted)");
    if name.contains("libhighwater_probe") || name.starts_with("/memfd:highwater-probe") {
        return Some(Class::Probe);
    }
    let in_memory = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    if area.inode != 0 && in_memory.iter().any(|start| name.starts_with(start)) {
        return Some(Class::Shared);
    }
    match name {
        "[stack]" => return Some(Class::Stack),
        "[heap]" => return None,
        _ if area.inode != 0 => return Some(Class::File),
        _ if area.shared => return Some(Class::Shared),
        _ if !area.is_anonymous() => return Some(Class::File),
        _ => {}
    }
    if stack_in(snapshot, area).is_some() {
        return None;
    }
    let data = below.is_some_and(|below| is_data_of(below, area));
    let claimed = snapshot.probe.as_ref().is_some_and(|probe| {
        probe
            .regions
            .iter()
            .any(|r| r.start < area.end && r.end > area.start)
    });
    (data && !claimed).then_some(Class::File)
}

fn stack_in<'a>(snapshot: &'a HeapSnapshot, area: &Area) -> Option<&'a StackArea> {
    let place = snapshot
        .stacks
        .binary_search_by_key(&area.start, |stack| stack.start);
    place.ok().map(|place| &snapshot.stacks[place])
}

/// Whether `area` is the zero-initialised data of the file that is mapped right below it.
fn is_data_of(below: &Area, area: &Area) -> bool {
    let of_probe = below.name.starts_with("/memfd:highwater-probe");
    below.end == area.start && below.inode != 0 && below.writable && !below.shared && !of_probe
}

/// What areas are divided by.
struct Evidence<'a> {
    snapshot: &'a HeapSnapshot,
    /// Addresses of sampled live blocks, ordered.
    sampled: Vec<u64>,
    by_headers: bool,
}

/// Whether glibc's own headers list all of the heap: the walk was complete, and what is sampled is glibc's. Then a
/// block outside of what was walked was freed unseen, and its addresses may be somebody else's by now (an arena of
/// Python's).
fn is_told_by_headers(snapshot: &HeapSnapshot) -> bool {
    let is_complete = snapshot.walk.as_ref().is_some_and(|walk| walk.complete);
    let is_glibc = |probe: &ProbeSnapshot| probe.traps.is_some_and(|traps| traps.has_headers());
    is_complete && snapshot.probe.as_ref().is_none_or(is_glibc)
}

impl Evidence<'_> {
    /// Cuts an anonymous area along the claims on it.
    fn divide(&self, area: &Area, remembered: &Remembered, ranges: &mut Vec<Range>) {
        let mut claims = self.claims_on(area, remembered);
        claims.sort_by_key(|claim| (claim.start, claim.rank));
        let rest = self.rest_of(area, &claims, remembered);
        let first = ranges.len();
        let mut at = area.start;
        for claim in claims {
            let (start, end) = (claim.start.max(at), claim.end.min(area.end));
            if start >= end {
                continue;
            }
            let before = Claim {
                start: at,
                end: start,
                ..rest
            };
            push(self.snapshot, area, before, ranges);
            push(
                self.snapshot,
                area,
                Claim {
                    start,
                    end,
                    ..claim
                },
                ranges,
            );
            at = end;
        }
        let behind = Claim {
            start: at,
            end: area.end,
            ..rest
        };
        push(self.snapshot, area, behind, ranges);
        without_zero_pages(area, &mut ranges[first..]);
    }

    fn claims_on(&self, area: &Area, remembered: &Remembered) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut add = |start: u64, end: u64, class, mapped_by, rank| {
            if start < area.end && end > area.start {
                let (start, end) = (start.max(area.start), end.min(area.end));
                claims.push(Claim {
                    start,
                    end,
                    class,
                    covered: true,
                    mapped_by,
                    rank,
                });
            }
        };
        if let Some(probe) = &self.snapshot.probe {
            for own in &probe.own {
                add(own.0, own.1, Class::Probe, 0, 0);
            }
            let stack = stack_in(self.snapshot, area).map_or(0, |stack| stack.proof);
            let holds_stack = |region: &Region| (region.start..region.end).contains(&stack);
            for region in probe.regions.iter().filter(|region| !holds_stack(region)) {
                let class = self.class_of_region(region, remembered);
                add(region.start, region.end, class, region.stack, 1);
            }
        }
        for (start, end) in self.walked() {
            add(start, end, Class::Heap, 0, 2);
        }
        claims
    }

    /// Walked heaps, less what the program took from the break in their midst.
    fn walked(&self) -> Vec<(u64, u64)> {
        let regions = self.snapshot.probe.iter().flat_map(|probe| &probe.regions);
        let breaks: Vec<&Region> = regions.filter(|region| region.by_break).collect();
        let mut walked = Vec::new();
        for span in self.snapshot.walk.iter().flat_map(|walk| &walk.spans) {
            let mut at = span.start;
            for region in breaks
                .iter()
                .filter(|r| r.start < span.end && r.end > span.start)
            {
                walked.push((at, region.start.max(at)));
                at = region.end.max(at);
            }
            walked.push((at, span.end.max(at)));
        }
        walked
    }

    /// A mapping with a live block in it is the heap of an allocator, whoever called mmap: one that is
    /// linked into the program, and metered.
    fn class_of_region(&self, region: &Region, remembered: &Remembered) -> Class {
        let first = self
            .sampled
            .partition_point(|&address| address < region.start);
        let sampled = self
            .sampled
            .get(first)
            .is_some_and(|&address| address < region.end);
        let was_heap = || {
            remembered
                .heap
                .iter()
                .any(|&(start, _)| start == region.start)
        };
        match region {
            Region {
                by_allocator: true, ..
            } => Class::Heap,
            Region { shared: true, .. } => Class::Shared,
            Region {
                anonymous: true, ..
            } if sampled || was_heap() => Class::Heap,
            Region {
                anonymous: true, ..
            } => Class::Anonymous,
            _ => Class::File,
        }
    }

    /// What the unclaimed rest of an area is.
    fn rest_of(&self, area: &Area, claims: &[Claim], remembered: &Remembered) -> Claim {
        let unclaimed = |address: u64| {
            area.holds(address) && !claims.iter().any(|c| (c.start..c.end).contains(&address))
        };
        let from = self
            .sampled
            .partition_point(|&address| address < area.start);
        let to = self.sampled.partition_point(|&address| address < area.end);
        let sampled = !self.by_headers
            && self.sampled[from..to]
                .iter()
                .any(|&address| unclaimed(address));
        let has_begun = |&(start, _): &(u64, u64)| unclaimed(start);
        let holds_all = |&(start, end): &(u64, u64)| start <= area.start && end >= area.end;
        let was = |range: &(u64, u64)| has_begun(range) || holds_all(range);
        let was_heap = !self.by_headers && remembered.heap.iter().any(was);
        let heap = sampled || was_heap || is_named_heap(&area.name);
        let stack = stack_in(self.snapshot, area);
        let class = match stack {
            Some(_) => Class::Stack,
            None if heap => Class::Heap,
            None => Class::Anonymous,
        };
        let mut regions = self.snapshot.probe.iter().flat_map(|probe| &probe.regions);
        let maker = stack.and_then(|stack| {
            regions.find(|region| (region.start..region.end).contains(&stack.proof))
        });
        Claim {
            start: area.start,
            end: area.end,
            class,
            covered: sampled || (was_heap && self.snapshot.probe.is_some()),
            mapped_by: maker.map_or(0, |region| region.stack),
            rank: 3,
        }
    }
}

/// Reading what was never written maps the kernel's page of zeros: present, and not resident. We do so with the
/// probe's tables, from outside, and Go with its heap. What an area has less than its parts is such pages.
fn without_zero_pages(area: &Area, parts: &mut [Range]) {
    let sum: u64 = parts.iter().map(|part| part.rss_bytes).sum();
    let mut over = sum.saturating_sub(area.rss_bytes);
    for class in [Class::Probe, Class::Anonymous] {
        for part in parts.iter_mut().filter(|part| part.class == class) {
            let less = over.min(part.rss_bytes);
            part.rss_bytes -= less;
            over -= less;
        }
    }
}

fn is_named_heap(name: &str) -> bool {
    let named = [
        "[anon:scudo",
        "[anon:jemalloc",
        "[anon: glibc: malloc",
        "[anon:mimalloc",
    ];
    name == "[heap]" || named.iter().any(|start| name.starts_with(start))
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    start: u64,
    end: u64,
    class: Class,
    covered: bool,
    mapped_by: u64,
    /// The lower is believed where two begin at one place.
    rank: u8,
}

fn push(snapshot: &HeapSnapshot, area: &Area, claim: Claim, ranges: &mut Vec<Range>) {
    let bytes = claim.end.saturating_sub(claim.start);
    let rss_bytes = match snapshot.present.get(&area.start) {
        _ if bytes == area.bytes() => area.rss_bytes,
        Some(bits) => bits.bytes_in(claim.start, claim.end),
        // Without the page map: by the share of the addresses.
        None => (area.rss_bytes as f64 * bytes as f64 / area.bytes() as f64) as u64,
    };
    if bytes > 0 && rss_bytes > 0 {
        ranges.push(Range {
            start: claim.start,
            end: claim.end,
            class: claim.class,
            rss_bytes,
            area: area.start,
            covered: claim.covered,
            mapped_by: claim.mapped_by,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::glibc::Walk;

    #[test]
    fn pages_of_zeros_are_no_part_of_mappings_and_stay_out_of_the_heap() {
        let area = Area {
            rss_bytes: 10 * 4096,
            ..Area::default()
        };
        let part = |class, pages: u64| Range {
            start: 0,
            end: 1 << 20,
            class,
            rss_bytes: pages * 4096,
            area: 0,
            covered: false,
            mapped_by: 0,
        };
        let left = |parts: &[(Class, u64)]| {
            let parts = parts.iter().map(|(class, pages)| part(*class, *pages));
            let mut parts: Vec<Range> = parts.collect();
            without_zero_pages(&area, &mut parts);
            let pages = parts.iter().map(|part| part.rss_bytes / 4096);
            pages.collect::<Vec<u64>>()
        };
        assert_eq!(left(&[(Class::Anonymous, 8), (Class::Probe, 5)]), [8, 2]);
        assert_eq!(left(&[(Class::Anonymous, 13), (Class::Heap, 4)]), [6, 4]);
        assert_eq!(left(&[(Class::Heap, 12)]), [12], "said as unexplained");
    }

    /// A table of Python's that glibc had mapped was freed unseen, and an arena of Python's has its addresses.
    #[test]
    fn what_glibcs_headers_do_not_list_is_no_heap_though_it_was() {
        let area = Area {
            start: 0x10_0000,
            end: 0x50_0000,
            rss_bytes: 0x40_0000,
            readable: true,
            writable: true,
            ..Area::default()
        };
        let snapshot = |complete| HeapSnapshot {
            areas: vec![area.clone()],
            walk: Some(Walk {
                complete,
                ..Walk::default()
            }),
            ..HeapSnapshot::default()
        };
        let class = |complete| {
            let mut remembered = Remembered {
                heap: vec![(0x10_0000, 0x14_8000)],
            };
            class_areas(&snapshot(complete), &mut remembered)[0].class
        };
        assert_eq!(class(true), Class::Anonymous);
        assert_eq!(
            class(false),
            Class::Heap,
            "an inconsistent walk lists too little"
        );
    }
}

//! What each area of an address space is: the parts of the account, before the heap is divided.
//!
//! An anonymous area may be several things at once, because the kernel joins neighbours; so ranges
//! are classed, not areas. Evidence, strongest first: the probe's own memory; a stack that was proved;
//! mappings that the program asked for by itself; glibc's own headers; mappings that the allocator
//! asked for; a sampled live block in what is left of an area; having been heap at an earlier look.

use crate::observe::heap::HeapLook;
use crate::observe::heap::probe::Region;
use crate::observe::heap::smaps::Area;
use crate::observe::heap::stacks::StackArea;

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
    /// Key of the stack that mapped it, when the program did so directly; else 0.
    pub mapped_by: u64,
}

/// Ranges that were heap at an earlier look: memory that an allocator holds may have no live block.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    heap: Vec<(u64, u64)>,
}

/// Classes every area of a look.
pub fn class_areas(look: &HeapLook, remembered: &mut Remembered) -> Vec<Range> {
    let mut ranges = Vec::new();
    for (index, area) in look.areas.iter().enumerate() {
        if area.rss_bytes == 0 {
            continue;
        }
        let below = index.checked_sub(1).map(|below| &look.areas[below]);
        match class_of_area(look, area, below) {
            Some(class) => ranges.push(whole(area, class)),
            None => divide(look, area, remembered, &mut ranges),
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
fn class_of_area(look: &HeapLook, area: &Area, below: Option<&Area>) -> Option<Class> {
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
    if stack_in(look, area).is_some() {
        return None;
    }
    let data = below.is_some_and(|below| is_data_of(below, area));
    let claimed = look.probe.as_ref().is_some_and(|probe| {
        probe
            .regions
            .iter()
            .any(|r| r.start < area.end && r.end > area.start)
    });
    (data && !claimed).then_some(Class::File)
}

fn stack_in<'a>(look: &'a HeapLook, area: &Area) -> Option<&'a StackArea> {
    let place = look
        .stacks
        .binary_search_by_key(&area.start, |stack| stack.start);
    place.ok().map(|place| &look.stacks[place])
}

/// Whether `area` is the zero-initialised data of the file that is mapped right below it.
fn is_data_of(below: &Area, area: &Area) -> bool {
    below.end == area.start && below.inode != 0 && below.writable && !below.shared
}

/// Cuts an anonymous area along the claims on it.
fn divide(look: &HeapLook, area: &Area, remembered: &Remembered, ranges: &mut Vec<Range>) {
    let mut claims = claims_on(look, area);
    claims.sort_by_key(|claim| (claim.start, claim.rank));
    let rest = rest_of(look, area, &claims, remembered);
    let mut at = area.start;
    for claim in claims {
        let (start, end) = (claim.start.max(at), claim.end.min(area.end));
        if start >= end {
            continue;
        }
        push(
            look,
            area,
            Claim {
                start: at,
                end: start,
                ..rest
            },
            ranges,
        );
        push(
            look,
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
    push(
        look,
        area,
        Claim {
            start: at,
            end: area.end,
            ..rest
        },
        ranges,
    );
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

fn claims_on(look: &HeapLook, area: &Area) -> Vec<Claim> {
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
    if let Some(probe) = &look.probe {
        add(probe.start, probe.end, Class::Probe, 0, 0);
        let stack = stack_in(look, area).map_or(0, |stack| stack.proof);
        for region in probe
            .regions
            .iter()
            .filter(|region| !(region.start..region.end).contains(&stack))
        {
            add(
                region.start,
                region.end,
                class_of_region(region),
                region.stack,
                1,
            );
        }
    }
    // What a program took from the break lies in the midst of glibc's heap, and the walk over it.
    let broken = |at: u64| {
        let regions = look.probe.iter().flat_map(|probe| &probe.regions);
        let inside = regions.filter(|region| region.by_break && region.end > at);
        inside.map(|region| (region.start, region.end)).min()
    };
    for span in look.walk.iter().flat_map(|walk| &walk.spans) {
        let mut at = span.start;
        while at < span.end {
            let (start, end) = broken(at).unwrap_or((span.end, span.end));
            add(at, start.clamp(at, span.end), Class::Heap, 0, 2);
            at = end;
        }
    }
    claims
}

fn class_of_region(region: &Region) -> Class {
    match region {
        Region {
            by_allocator: true, ..
        } => Class::Heap,
        Region { shared: true, .. } => Class::Shared,
        Region {
            anonymous: true, ..
        } => Class::Anonymous,
        _ => Class::File,
    }
}

/// What the unclaimed rest of an area is.
fn rest_of(look: &HeapLook, area: &Area, claims: &[Claim], remembered: &Remembered) -> Claim {
    let unclaimed = |address: u64| {
        area.holds(address) && !claims.iter().any(|c| (c.start..c.end).contains(&address))
    };
    let probe = look.probe.as_ref();
    let sampled = probe.is_some_and(|p| p.blocks.iter().any(|block| unclaimed(block.address)));
    let was_heap = remembered.heap.iter().any(|&(start, _)| unclaimed(start))
        || remembered
            .heap
            .iter()
            .any(|&(start, end)| start <= area.start && end >= area.end);
    let named = [
        "[anon:scudo",
        "[anon:jemalloc",
        "[anon: glibc: malloc",
        "[anon:mimalloc",
    ];
    let by_name = area.name == "[heap]" || named.iter().any(|name| area.name.starts_with(name));
    let heap = sampled || was_heap || by_name;
    let class = match stack_in(look, area) {
        Some(_) => Class::Stack,
        None if heap => Class::Heap,
        None => Class::Anonymous,
    };
    Claim {
        start: area.start,
        end: area.end,
        class,
        covered: sampled || (was_heap && probe.is_some()),
        mapped_by: 0,
        rank: 3,
    }
}

fn push(look: &HeapLook, area: &Area, claim: Claim, ranges: &mut Vec<Range>) {
    let bytes = claim.end.saturating_sub(claim.start);
    let rss_bytes = match look.present.get(&area.start) {
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

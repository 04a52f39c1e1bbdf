//! Which caller of a function is to blame for what grows there.
//!
//! A program has allocating functions of its own, under names that nobody knows: `reed`, which calls `fern`, which
//! calls malloc. Where what one caller gets through them stays and what another one gets through them is freed
//! again, the functions do their duty: the site is the caller at which the stacks part.

use std::collections::BTreeMap;

use abi::PYTHON_CODE;

use super::sites::SiteGrowth;
use heap::probe::Site;
use symbols::frame::{Frame, PYTHON_MODULE};

/// Growing stacks that are compared, those that grew most first.
const COMPARED_MAX: usize = 256;
/// Freed share and samples from which a stack's blocks come back.
const COMES_BACK: f64 = 0.9;
const COMES_BACK_SAMPLES: u64 = 8;

/// What two stacks have in common, from the innermost on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    pub addresses: usize,
    /// Functions behind those that left the stack ([`Frame::left`]), and so have no address on it.
    pub left: usize,
}

/// By growing stack: what it shares with a stack whose blocks come back.
pub fn shared_with_others(
    growths: &[SiteGrowth],
    sites: &BTreeMap<u64, Site>,
    frames: &BTreeMap<u64, Vec<Frame>>,
) -> BTreeMap<u64, Shared> {
    let comes_back = |site: &&Site| {
        site.freed_samples >= COMES_BACK_SAMPLES
            && site.freed_bytes as f64 >= COMES_BACK * site.allocated_bytes as f64
    };
    let frames_of = |stack: &u64| frames.get(stack).map_or(&[][..], Vec::as_slice);
    let back: Vec<(&[u64], &[Frame])> = sites
        .iter()
        .filter(|(_, site)| comes_back(site))
        .map(|(stack, site)| (site.addresses.as_slice(), frames_of(stack)))
        .collect();
    let mut growing: Vec<&SiteGrowth> = growths
        .iter()
        .filter(|growth| growth.grown_bytes > 0.0 && !growth.turns_over())
        .collect();
    growing.sort_by(|a, b| b.grown_bytes.total_cmp(&a.grown_bytes));
    let shared = |growth: &SiteGrowth| {
        let own = sites.get(&growth.stack)?.addresses.as_slice();
        let own = (own, frames_of(&growth.stack));
        let others = back.iter().filter_map(|other| parting(own, *other));
        let most = others.max()?;
        // One that ends within another one was cut short: nothing tells where they part.
        let is_some = most > Shared::default() && most.addresses < own.0.len();
        is_some.then_some((growth.stack, most))
    };
    growing
        .into_iter()
        .take(COMPARED_MAX)
        .filter_map(shared)
        .collect()
}

/// What two stacks share, unless they part at one line of one function: a loop that the compiler unrolled has several
/// calls there, which are one use.
fn parting(a: (&[u64], &[Frame]), b: (&[u64], &[Frame])) -> Option<Shared> {
    let shared = alike(a, b);
    let line = |frames: &[Frame]| {
        let frame = frame_behind(frames, shared).map(|index| frames[index].clone())?;
        Some((frame.function?, frame.file?, frame.line?))
    };
    let (a, b) = (line(a.1), line(b.1));
    (a.is_none() || a != b).then_some(shared)
}

fn alike(a: (&[u64], &[Frame]), b: (&[u64], &[Frame])) -> Shared {
    let addresses = same_addresses(a, b.0);
    let left = left_behind(a.1, addresses).zip(left_behind(b.1, addresses));
    Shared {
        addresses,
        left: left.take_while(|(a, b)| a == b).count(),
    }
}

/// How many, as the frames of the first stand: its functions of Python come behind the native addresses, and stand in
/// the midst of their frames. The other one need not be named: of a stack whose blocks all came back nobody asks.
fn same_addresses((own, frames): (&[u64], &[Frame]), other: &[u64]) -> usize {
    let same = |a: &[u64], b: &[u64]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (native, python) = apart(own);
    if python.is_empty() {
        return same(own, other);
    }
    let (others_native, others_python) = apart(other);
    let is_python = |frame: &&Frame| frame.module == PYTHON_MODULE;
    let inside = frames.iter().take_while(|frame| !is_python(frame));
    let inside = inside.filter(|frame| is_end(frame)).count();
    let shared = same(native, others_native);
    let are_named = frames.iter().filter(is_python).count() == python.len();
    if shared < inside || !are_named {
        return shared.min(inside);
    }
    match same(python, others_python) {
        all if all == python.len() => shared + all,
        some => inside + some,
    }
}

/// The native addresses of a stack, and its functions of Python.
fn apart(addresses: &[u64]) -> (&[u64], &[u64]) {
    let is_native = |address: &&u64| **address & PYTHON_CODE == 0;
    addresses.split_at(addresses.iter().take_while(is_native).count())
}

/// Functions that left the stack just behind so many addresses.
fn left_behind(frames: &[Frame], addresses: usize) -> impl Iterator<Item = &Frame> {
    let from = end_of(frames, addresses).unwrap_or(frames.len());
    frames[from..].iter().take_while(|frame| frame.left)
}

/// The first frame behind so many addresses: an address may be several frames, of which only the last is neither
/// inlined nor left.
fn end_of(frames: &[Frame], addresses: usize) -> Option<usize> {
    let Some(last) = addresses.checked_sub(1) else {
        return Some(0);
    };
    let mut ends = frames.iter().enumerate().filter(|(_, f)| is_end(f));
    ends.nth(last).map(|(index, _)| index + 1)
}

/// The last frame of an address.
fn is_end(frame: &Frame) -> bool {
    !frame.inlined && !frame.left
}

/// The first frame behind what is shared. `None` where no function of the program is left there.
pub fn frame_behind(frames: &[Frame], shared: Shared) -> Option<usize> {
    let index = end_of(frames, shared.addresses)? + shared.left;
    let name = frames.get(index)?.function.as_deref();
    name.is_some_and(|name| !is_start(name)).then_some(index)
}

/// What every program and thread begins with says nothing.
pub fn is_start(name: &str) -> bool {
    matches!(name, "_start" | "start_thread" | "clone" | "clone3")
        || name.starts_with("__libc_start")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(addresses: &[u64], freed_samples: u64) -> Site {
        Site {
            addresses: addresses.to_vec(),
            allocated_bytes: 100_000,
            freed_bytes: freed_samples * 1000,
            freed_samples,
            ..Site::default()
        }
    }

    fn growing(stack: u64) -> SiteGrowth {
        SiteGrowth {
            stack,
            grown_bytes: 5000.0,
            ..SiteGrowth::default()
        }
    }

    #[test]
    fn stacks_part_where_one_comes_back() {
        let lost = [1, 2, 3, 50, 9];
        let shared = |other: Site| {
            let sites = BTreeMap::from([(7, site(&lost, 0)), (8, other)]);
            let shared = shared_with_others(&[growing(7)], &sites, &BTreeMap::new());
            shared.get(&7).map(|shared| shared.addresses)
        };
        assert_eq!(shared(site(&[1, 2, 3, 60, 9], 95)), Some(3));
        assert_eq!(shared(site(&[1, 2, 3, 60, 9], 50)), None, "it stays too");
        assert_eq!(shared(site(&[4, 2, 3, 60, 9], 95)), None, "elsewhere");
        assert_eq!(shared(site(&lost, 95)), None, "the same stack");
    }

    #[test]
    fn inlined_frames_belong_to_one_address() {
        let frame = |name: &str, inlined| Frame {
            function: Some(name.into()),
            inlined,
            ..Frame::default()
        };
        let frames = [
            frame("malloc", false),
            frame("moss", true),
            frame("fern", false),
            frame("lantern", false),
            frame("_start", false),
        ];
        let behind = |addresses| frame_behind(&frames, Shared { addresses, left: 0 });
        assert_eq!(behind(1), Some(1));
        assert_eq!(behind(2), Some(3));
        assert_eq!(behind(3), None, "a start is nobody");
        assert_eq!(behind(9), None);
    }

    #[test]
    fn functions_of_python_are_compared_where_they_stand() {
        let frame = |name: &str, module: &str| Frame {
            function: Some(name.into()),
            module: module.into(),
            ..Frame::default()
        };
        let stack = |python: &[&str]| {
            let mut frames = vec![frame("bytearray_init", "python3.11")];
            frames.extend(python.iter().map(|name| frame(name, PYTHON_MODULE)));
            frames.extend(["eval", "main", "_start"].map(|name| frame(name, "python3.11")));
            frames
        };
        let words = |python: &[u64]| {
            let python = python.iter().map(|code| PYTHON_CODE | code);
            [10, 20, 30, 40]
                .into_iter()
                .chain(python)
                .collect::<Vec<_>>()
        };
        // Both make their rows by the same function.
        let sites = BTreeMap::from([
            (7, site(&words(&[1, 2, 9]), 0)),
            (8, site(&words(&[1, 3, 9]), 95)),
        ]);
        let blamed = |frames: &BTreeMap<u64, Vec<Frame>>| {
            let shared = shared_with_others(&[growing(7)], &sites, frames);
            let at = frame_behind(&frames[&7], *shared.get(&7)?)?;
            frames[&7][at].function.clone()
        };
        let keeps = stack(&["make_row", "keep", "<module>"]);
        let frees = stack(&["make_row", "free", "<module>"]);
        let named = BTreeMap::from([(7, keeps.clone()), (8, frees)]);
        assert_eq!(blamed(&named).as_deref(), Some("keep"));
        let alone = BTreeMap::from([(7, keeps)]);
        assert_eq!(blamed(&alone).as_deref(), Some("keep"));
        // One function is gone by the time that it is looked up: which frame is whose is not known.
        let some = BTreeMap::from([(7, stack(&["make_row", "<module>"]))]);
        assert_eq!(blamed(&some).as_deref(), Some("make_row"));
    }

    #[test]
    fn calls_of_one_line_are_one_use() {
        let at = |line| Frame {
            function: Some("main".into()),
            file: Some("choir.zig".into()),
            line: Some(line),
            ..Frame::default()
        };
        let sites = BTreeMap::from([(7, site(&[1, 20, 9], 0)), (8, site(&[1, 30, 9], 95))]);
        let named = |function: &str| Frame {
            function: Some(function.into()),
            ..Frame::default()
        };
        let shared = |line| {
            let stack = |line| vec![named("addVerse"), at(line), named("_start")];
            let frames = BTreeMap::from([(7, stack(24)), (8, stack(line))]);
            shared_with_others(&[growing(7)], &sites, &frames).contains_key(&7)
        };
        assert!(!shared(24), "a loop that was unrolled");
        assert!(shared(25));
    }

    /// `make` ends in a call of malloc, for one that keeps and one that frees.
    #[test]
    fn a_function_that_left_the_stack_is_shared_like_any_other() {
        let frame = |name: &str, left| Frame {
            function: Some(name.into()),
            left,
            ..Frame::default()
        };
        let stack = |caller: &str| vec![frame("make", true), frame(caller, false)];
        let frames = BTreeMap::from([(7, stack("keeps")), (8, stack("frees"))]);
        let sites = BTreeMap::from([(7, site(&[1, 9], 0)), (8, site(&[2, 9], 95))]);
        let shared = shared_with_others(&[growing(7)], &sites, &frames)[&7];
        assert_eq!((shared.addresses, shared.left), (0, 1));
        assert_eq!(frame_behind(&frames[&7], shared), Some(1));
    }
}

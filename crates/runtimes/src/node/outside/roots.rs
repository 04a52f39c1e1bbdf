//! Where references into the heap may start: memory of V8 itself and of the C++ code around it, read word by word.
//!
//! V8's own pages are no roots: what lies there and nothing refers to is dead.

use observe::fact::memory::Memory;
use observe::proc::area::{AreaLine, parse_area};
use observe::proc::pagemap::{PAGE_BYTES, PageState};

use super::freed;
use super::heap::{Heap, pointer};

/// Read at once, in pages.
const PAGES: usize = 16;
/// Words that may be references, before those that are one are counted once.
const WORDS_MAX: usize = 1 << 21;
/// glibc starts an arena at a multiple of this.
const ARENA_BYTES: u64 = 64 << 20;
/// Of an arena, what its first word may point to behind a start.
const ARENA_HEADER_BYTES: u64 = 256;
/// Where a context has the global object: among its first words.
const GLOBAL_WORDS: u64 = 16;

/// Words that point to objects.
#[derive(Debug, Default)]
pub struct Roots {
    /// The global objects of JavaScript.
    pub globals: Vec<u64>,
    pub words: Vec<u64>,
}

struct Area {
    range: (u64, u64),
    is_malloc: bool,
}

/// `None`: the time is over, or there are too many. `stack`: the address of the top of the main thread's stack, where
/// it is known.
pub fn roots(heap: &Heap, maps: &str, stack: Option<u64>) -> Option<Roots> {
    let mut words = Vec::new();
    let areas = areas(heap, maps);
    let of_malloc: Vec<(u64, u64)> = areas
        .iter()
        .filter(|area| area.is_malloc)
        .map(|area| area.range)
        .collect();
    let free = freed::ranges(heap, &of_malloc);
    for Area {
        range: (start, end),
        ..
    } in areas
    {
        let is_stack = stack.filter(|top| (start..end).contains(top));
        scan(heap, is_stack.unwrap_or(start) & !7, end, &free, &mut words)?;
    }
    words.sort_unstable();
    words.dedup();
    let mut globals: Vec<u64> = words
        .iter()
        .flat_map(|word| globals_of(heap, *word))
        .collect();
    globals.sort_unstable();
    globals.dedup();
    Some(Roots { globals, words })
}

/// The heap of malloc with its arenas, the main thread's stack, and the variables of Node.js.
fn areas(heap: &Heap, maps: &str) -> Vec<Area> {
    let lines: Vec<AreaLine> = maps.lines().filter_map(parse_area).collect();
    let is_program = |line: &AreaLine| {
        let file = line.name.trim_end_matches(" (deleted)");
        let file = file.rsplit('/').next().unwrap_or_default();
        line.inode != 0 && (file.starts_with("node") || file.starts_with("libnode.so"))
    };
    let mut found = Vec::new();
    // Behind the variables of the file those that start as zero.
    let mut behind = None;
    for line in &lines {
        let is_writable = line.rights.starts_with(b"rw");
        let is_zeroed = line.inode == 0 && line.name.is_empty() && behind == Some(line.start);
        let is_variables = is_writable && (is_program(line) || is_zeroed);
        behind = (is_writable && is_program(line)).then_some(line.end);
        let is_named = matches!(line.name.as_str(), "[heap]" | "[stack]");
        let is_malloc = line.name == "[heap]" || is_arena(heap, line);
        if is_variables || (is_named && is_writable) || is_malloc {
            found.push(Area {
                range: (line.start, line.end),
                is_malloc,
            });
        }
    }
    found
}

fn is_arena(heap: &Heap, line: &AreaLine) -> bool {
    let is_anonymous = line.inode == 0 && line.name.is_empty() && line.rights == *b"rw-p";
    if !is_anonymous || !line.start.is_multiple_of(ARENA_BYTES) {
        return false;
    }
    let source = heap.pages.source();
    let to = source
        .u64(line.start)
        .filter(|to| source.areas.holds(*to, 8));
    // To its own first arena, or to the one of the main thread, a variable of libc.
    to.is_some_and(|to| to % ARENA_BYTES < ARENA_HEADER_BYTES || !source.areas.is_anonymous(to))
}

/// Words from `start` on that point to where objects may be, without those in the `free` ranges.
fn scan(
    heap: &Heap,
    start: u64,
    end: u64,
    free: &[(u64, u64)],
    words: &mut Vec<u64>,
) -> Option<()> {
    let mut free = free.iter().skip_while(|range| range.1 <= start).peekable();
    let source = heap.pages.source();
    let mut states = [PageState::Present; PAGES];
    let mut bytes = vec![0; PAGES * PAGE_BYTES as usize];
    let mut at = start & !(PAGE_BYTES - 1);
    while at < end {
        if heap.pages.is_late() || words.len() > WORDS_MAX {
            return None;
        }
        source.states(at, &mut states);
        for (page, state) in states.iter().enumerate() {
            let from = at.checked_add(page as u64 * PAGE_BYTES)?;
            let bytes = &mut bytes[..PAGE_BYTES as usize];
            if from >= end || *state != PageState::Present || source.read(from, bytes).is_none() {
                continue;
            }
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let (word, place) = (u64::from_le_bytes(*word), from + 8 * index as u64);
                let Some(to) = pointer(word) else {
                    continue;
                };
                while free.next_if(|range| range.1 <= place).is_some() {}
                let is_free = free.peek().is_some_and(|range| range.0 <= place);
                if is_free || place < start {
                    continue;
                }
                if source.areas.is_writable_anonymous(to) {
                    words.push(word);
                }
            }
        }
        at = at.checked_add(PAGES as u64 * PAGE_BYTES)?;
    }
    Some(())
}

/// The global objects of a context, or the object itself.
fn globals_of(heap: &Heap, word: u64) -> Vec<u64> {
    let types = &heap.layout.types;
    match heap.object(word) {
        Some((_, own_type)) if own_type == types.global => vec![word],
        Some((context, own_type)) if types.is_context(own_type) => {
            let items = (0..GLOBAL_WORDS).filter_map(|index| heap.item(context, index));
            items
                .filter(|word| heap.is(*word, types.global).is_some())
                .collect()
        }
        _ => Vec::new(),
    }
}

//! Which parts of the heap have objects now: what lies above the top of a part is free, though old objects may still be
//! seen there.

use std::cell::Cell;

use observe::fact::memory::Memory;
use symbols::hotspot::Tables;

use super::flags::Collector;

/// A heap of 32 GiB in the smallest regions.
const REGIONS_MAX: u64 = 1 << 17;

/// Where the collector has its parts; offsets in bytes.
#[derive(Debug, Clone)]
pub enum Parts {
    /// To each space, and where it has its bounds.
    Spaces { pointers: Vec<Path>, bounds: Bounds },
    /// An array of pointers to regions.
    Regions {
        base: Path,
        count: Path,
        bounds: Bounds,
    },
    /// They are not published (Shenandoah of JDK 11): the whole heap.
    Unknown,
}

/// From an address on, offsets: behind each of them a pointer is read, and the last one is the value.
#[derive(Debug, Clone)]
pub struct Path {
    from: u64,
    offsets: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    bottom: u64,
    end: u64,
    top: u64,
}

/// One part as it was read.
#[derive(Debug)]
struct Space {
    bottom: u64,
    end: u64,
    top: Cell<u64>,
    /// Where the JVM has the top.
    top_at: u64,
}

/// The parts, by address.
#[derive(Debug, Default)]
pub struct Spaces {
    all: Vec<Space>,
    /// The last one that was asked for.
    last: Cell<usize>,
    is_known: bool,
}

impl Parts {
    /// `heap`: the address of the collector's object.
    pub fn of(tables: &Tables, collector: Collector, heap: u64) -> Option<Parts> {
        match collector {
            Collector::Serial => serial(tables, heap),
            Collector::Parallel => parallel(tables),
            Collector::G1 => g1(tables, heap),
            Collector::Shenandoah => Some(shenandoah(tables, heap).unwrap_or(Parts::Unknown)),
        }
    }
}

fn bounds(tables: &Tables, types: &[&str]) -> Option<Bounds> {
    let at = |field: &str| {
        let mut found = types.iter().filter_map(|of| tables.offset(of, field));
        found.next().map(|at| at as u64)
    };
    Some(Bounds {
        bottom: at("_bottom")?,
        end: at("_end")?,
        top: at("_top")?,
    })
}

fn serial(tables: &Tables, heap: u64) -> Option<Parts> {
    let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
    let of_heap = |field: &str| at("SerialHeap", field).or_else(|| at("GenCollectedHeap", field));
    let (young, old) = (of_heap("_young_gen")?, of_heap("_old_gen")?);
    let path = |generation: u64, space: u64| Path {
        from: heap,
        offsets: vec![generation, space],
    };
    let young_space = |field: &str| Some(path(young, at("DefNewGeneration", field)?));
    Some(Parts::Spaces {
        pointers: vec![
            young_space("_eden_space")?,
            young_space("_from_space")?,
            young_space("_to_space")?,
            path(old, at("TenuredGeneration", "_the_space")?),
        ],
        bounds: bounds(tables, &["ContiguousSpace", "Space"])?,
    })
}

fn parallel(tables: &Tables) -> Option<Parts> {
    let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
    let path = |generation: &str, space: u64| {
        Some(Path {
            from: tables.address("ParallelScavengeHeap", generation)?,
            offsets: vec![0, space],
        })
    };
    let young = |field: &str| path("_young_gen", at("PSYoungGen", field)?);
    Some(Parts::Spaces {
        pointers: vec![
            young("_eden_space")?,
            young("_from_space")?,
            young("_to_space")?,
            path("_old_gen", at("PSOldGen", "_object_space")?)?,
        ],
        bounds: bounds(tables, &["MutableSpace", "ImmutableSpace"])?,
    })
}

fn g1(tables: &Tables, heap: u64) -> Option<Parts> {
    let at = |of: &str, field: &str| Some(tables.offset(of, field)? as u64);
    let regions =
        at("G1HeapRegionManager", "_regions").or_else(|| at("HeapRegionManager", "_regions"))?;
    let table = at("G1CollectedHeap", "_hrm")? + regions;
    let path = |field: &str| {
        Some(Path {
            from: heap,
            offsets: vec![table + at("G1HeapRegionTable", field)?],
        })
    };
    const REGIONS: [&str; 4] = ["G1HeapRegion", "HeapRegion", "G1ContiguousSpace", "Space"];
    Some(Parts::Regions {
        base: path("_base")?,
        count: path("_length")?,
        bounds: bounds(tables, &REGIONS)?,
    })
}

fn shenandoah(tables: &Tables, heap: u64) -> Option<Parts> {
    let path = |field: &str| {
        Some(Path {
            from: heap,
            offsets: vec![tables.offset("ShenandoahHeap", field)? as u64],
        })
    };
    Some(Parts::Regions {
        base: path("_regions")?,
        count: path("_num_regions")?,
        bounds: bounds(tables, &["ShenandoahHeapRegion"])?,
    })
}

impl Path {
    fn read(&self, memory: &dyn Memory) -> Option<u64> {
        let mut offsets = self.offsets.iter();
        offsets.try_fold(self.from, |at, offset| memory.u64(at.checked_add(*offset)?))
    }
}

impl Spaces {
    /// As they are now. `None`: they could not be read.
    pub fn read(parts: &Parts, memory: &dyn Memory) -> Option<Spaces> {
        let (mut all, is_known) = match parts {
            Parts::Unknown => (Vec::new(), false),
            Parts::Spaces { pointers, bounds } => {
                let spaces = pointers
                    .iter()
                    .map(|path| space(memory, path.read(memory)?, *bounds));
                (spaces.collect::<Option<Vec<Space>>>()?, true)
            }
            Parts::Regions {
                base,
                count,
                bounds,
            } => {
                let (base, count) = (base.read(memory)?, count.read(memory)?);
                let length = count.min(REGIONS_MAX).checked_mul(8)?;
                let pointers = memory.bytes(base, length, REGIONS_MAX * 8)?;
                let pointers = pointers.as_chunks::<8>().0.iter();
                // Regions that the system has not given yet have none.
                let regions = pointers
                    .map(|word| u64::from_le_bytes(*word))
                    .filter(|region| *region != 0);
                let spaces = regions.filter_map(|region| space(memory, region, *bounds));
                (spaces.collect(), true)
            }
        };
        all.sort_unstable_by_key(|space| space.bottom);
        Some(Spaces {
            all,
            last: Cell::new(0),
            is_known,
        })
    }

    /// Whether there may be an object. A part is asked for its top again where the address is above what it was.
    pub fn has(&self, memory: &dyn Memory, address: u64) -> bool {
        if !self.is_known {
            return true;
        }
        let is_in = |space: &&Space| (space.bottom..space.end).contains(&address);
        let last = self.all.get(self.last.get()).filter(is_in);
        let space = last.or_else(|| {
            let after = self
                .all
                .partition_point(|space| space.bottom <= address)
                .checked_sub(1)?;
            self.last.set(after);
            self.all.get(after).filter(is_in)
        });
        let Some(space) = space else {
            return false;
        };
        if address >= space.top.get() {
            let top = memory.u64(space.top_at);
            space.top.set(top.unwrap_or(0).min(space.end));
        }
        address < space.top.get()
    }
}

fn space(memory: &dyn Memory, at: u64, of: Bounds) -> Option<Space> {
    let word = |offset: u64| memory.u64(at.checked_add(offset)?);
    let (bottom, end) = (word(of.bottom)?, word(of.end)?);
    let top_at = at.checked_add(of.top)?;
    Some(Space {
        bottom,
        end,
        top: Cell::new(word(of.top)?.min(end)),
        top_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    #[test]
    fn objects_are_below_the_top() {
        let words = [0x1000_u64, 0x2000, 0x1800, 0x4000, 0x5000, 0x4000];
        let mut made = Made {
            at: 0x100,
            bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        };
        let bounds = Bounds {
            bottom: 0,
            end: 8,
            top: 16,
        };
        let all = [0x100, 0x118].map(|at| space(&made, at, bounds).unwrap());
        let spaces = Spaces {
            all: all.into(),
            last: Cell::new(0),
            is_known: true,
        };
        let has = |made: &Made, addresses: [u64; 5]| addresses.map(|at| spaces.has(made, at));
        let asked = [0x1000, 0x17f8, 0x1800, 0x4000, 0x9000];
        assert_eq!(has(&made, asked), [true, true, false, false, false]);
        // Meanwhile there are objects in the second.
        made.bytes[40..48].copy_from_slice(&0x4010_u64.to_le_bytes());
        assert_eq!(has(&made, asked), [true, true, false, true, false]);
    }
}

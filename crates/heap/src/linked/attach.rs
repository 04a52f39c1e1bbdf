//! Puts programs on an allocator's functions in one process and takes them off again.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use super::functions::Function;
use super::layout::{set_entry, set_exit};
#[cfg(test)]
use bpf::fdinfo::read_fdinfo;
use bpf::object::Object;
use bpf::uprobes::{Coming, Put, Target, Way};
use observe::exits::Exit;

/// Programs, loaded once, and the places they belong on.
pub struct Programs {
    way: Way,
    /// Of functions that free, realloc among them.
    frees: Vec<Placed>,
    /// Of those that allocate only, and where they return.
    entries: Vec<Placed>,
    exits: Vec<Placed>,
}

struct Placed {
    program: OwnedFd,
    /// Offsets in the file.
    places: Vec<u64>,
}

/// While it lives, these functions are probed.
pub struct Attached {
    put: Put,
}

impl Attached {
    /// Whether a process that holds some was ended from outside.
    pub fn has_lost_some(&self) -> bool {
        self.put.has_lost_some()
    }
}

impl Programs {
    /// # Errors
    /// No right to load programs, the kernel refuses one, or it is too old for this way.
    pub fn load(object: &Object, functions: &[Function], way: Way) -> io::Result<Programs> {
        let kind = way.kind()?;
        let mut object = object.clone();
        let needs = |f: &Function| (f.role, f.is_emulated, f.arguments);
        let (mut frees, mut entries) = (Vec::new(), Vec::new());
        for alike in groups(functions, needs) {
            set_entry(&mut object, alike[0]);
            let program = Placed {
                program: object.load("on_entry", kind)?,
                places: alike.iter().map(|function| function.file_offset).collect(),
            };
            match alike[0].frees() {
                true => frees.push(program),
                false => entries.push(program),
            }
        }
        // Functions may end in the same code.
        let all: BTreeSet<Exit> = functions.iter().flat_map(|f| f.exits.clone()).collect();
        let all: Vec<Exit> = all.into_iter().collect();
        let mut exits = Vec::new();
        for alike in groups(&all, |exit| (exit.result, exit.is_emulated)) {
            set_exit(&mut object, alike[0].result, alike[0].is_emulated);
            exits.push(Placed {
                program: object.load("on_exit", kind)?,
                places: alike.iter().map(|exit| exit.at).collect(),
            });
        }
        Ok(Programs {
            way,
            frees,
            entries,
            exits,
        })
    }

    /// Runs of all of them, by the kernel's count while it times programs.
    #[cfg(test)]
    pub fn runs(&self) -> u64 {
        let all = self.frees.iter().chain(&self.entries).chain(&self.exits);
        let counts = all.map(|placed| read_fdinfo(&placed.program).run_count);
        counts.sum()
    }

    /// Probes what frees: then the end of every block is seen.
    ///
    /// # Errors
    /// The kernel refuses an entry: no such process, or no right.
    pub fn attach_frees(&self, target: &Target) -> io::Result<Attached> {
        let mut all = Put::none(target.pid);
        self.put_all(&self.frees, target, &mut all)?;
        Ok(Attached { put: all })
    }

    /// Probes what only allocates, and the exits of all. An exit that the kernel refuses goes without a probe: the
    /// results there stay unknown.
    ///
    /// # Errors
    /// The kernel refuses an entry: no such process, or no right.
    pub fn attach_allocations(&self, target: &Target) -> io::Result<Attached> {
        let mut all = Put::none(target.pid);
        // Exits first: a call that is sampled has them.
        let coming = self.exits.iter().map(|placed| self.start(placed, target));
        let coming: Vec<io::Result<Coming>> = coming.collect();
        for (placed, coming) in self.exits.iter().zip(coming) {
            match coming.and_then(Coming::wait) {
                Ok(exits) => all.join(exits),
                Err(_) => {
                    let put = |place: &[u64]| {
                        Coming::start(self.way, &placed.program, place, target)?.wait()
                    };
                    let single = placed.places.chunks(1);
                    let exits = single.filter_map(|place| put(place).ok());
                    exits.for_each(|exit| all.join(exit));
                }
            }
        }
        self.put_all(&self.entries, target, &mut all)?;
        Ok(Attached { put: all })
    }

    /// Side by side: while some are on and others not yet, each hit costs and tells nothing.
    fn put_all(&self, programs: &[Placed], target: &Target, all: &mut Put) -> io::Result<()> {
        let coming = programs.iter().map(|placed| self.start(placed, target));
        for coming in coming.collect::<io::Result<Vec<Coming>>>()? {
            all.join(coming.wait()?);
        }
        Ok(())
    }

    fn start(&self, placed: &Placed, target: &Target) -> io::Result<Coming> {
        Coming::start(self.way, &placed.program, &placed.places, target)
    }
}

/// Those that need the same, in the order of the first of each.
fn groups<T, K: PartialEq>(all: &[T], needs: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups
            .iter_mut()
            .find(|group| needs(group[0]) == needs(one))
        {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

//! Puts programs on an allocator's functions in one process and takes them off again.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use super::functions::Function;
use super::layout::{set_entry, set_exit};
#[cfg(test)]
use bpf::fdinfo::read_fdinfo;
use bpf::object::Object;
use bpf::uprobes::{Put, Target, Way, put};
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
    _put: Put,
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
        for placed in &self.frees {
            all.join(self.put(placed, &placed.places, target)?);
        }
        Ok(Attached { _put: all })
    }

    /// Probes what only allocates, and the exits of all. An exit that the kernel refuses goes without a probe: the
    /// results there stay unknown.
    ///
    /// # Errors
    /// The kernel refuses an entry: no such process, or no right.
    pub fn attach_allocations(&self, target: &Target) -> io::Result<Attached> {
        let put = |placed: &Placed, places: &[u64]| self.put(placed, places, target);
        let mut all = Put::none(target.pid);
        // Exits first: a call that is sampled has them.
        for placed in &self.exits {
            match put(placed, &placed.places) {
                Ok(exits) => all.join(exits),
                Err(_) => {
                    let single = placed.places.chunks(1);
                    let exits = single.filter_map(|place| put(placed, place).ok());
                    exits.for_each(|exit| all.join(exit));
                }
            }
        }
        for placed in &self.entries {
            all.join(put(placed, &placed.places)?);
        }
        Ok(Attached { _put: all })
    }

    fn put(&self, placed: &Placed, places: &[u64], target: &Target) -> io::Result<Put> {
        put(self.way, &placed.program, places, target)
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

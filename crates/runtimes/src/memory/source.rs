//! A process's memory as far as it is in RAM: a read of a swapped page would bring it back, and the process would grow
//! because of us.

use std::cell::RefCell;
use std::collections::HashSet;

use observe::fact::memory::Memory;
use observe::proc::pagemap::{PAGE_BYTES, PageState, Pagemap};

use super::areas::Areas;
use super::hash::AddressHash;

/// Swapped pages that are counted: 4 GiB of them, and 16 MiB of ours.
const SWAPPED_MAX: usize = 1 << 20;

/// Asks where pages are.
pub trait PageStates {
    /// Of the pages from the one at `address` on.
    fn states(&self, address: u64, states: &mut [PageState]) -> Option<()>;
}

impl PageStates for Pagemap {
    fn states(&self, address: u64, states: &mut [PageState]) -> Option<()> {
        Pagemap::states(self, address, states)
    }
}

/// Reads what is in RAM now.
pub struct Source<'m> {
    pub memory: &'m dyn Memory,
    pub areas: Areas,
    /// `None`: it may not be asked. Then every page is read.
    states: Option<&'m dyn PageStates>,
    /// Numbers of pages that were needed and not read.
    swapped: RefCell<HashSet<u64, AddressHash>>,
}

impl<'m> Source<'m> {
    pub fn new(
        memory: &'m dyn Memory,
        areas: Areas,
        states: Option<&'m dyn PageStates>,
    ) -> Source<'m> {
        Source {
            memory,
            areas,
            states,
            swapped: RefCell::default(),
        }
    }

    /// The states of the pages from the one at `address` on. Where they are not known: present.
    pub fn states(&self, address: u64, states: &mut [PageState]) {
        let known = self
            .states
            .and_then(|source| source.states(address, states));
        if known.is_none() {
            states.fill(PageState::Present);
        }
    }

    /// A swapped page was needed.
    pub fn miss(&self, address: u64) {
        let mut swapped = self.swapped.borrow_mut();
        if swapped.len() < SWAPPED_MAX {
            swapped.insert(address / PAGE_BYTES);
        }
    }

    /// Pages that were needed and are swapped out.
    pub fn swapped(&self) -> usize {
        self.swapped.borrow().len()
    }
}

impl Memory for Source<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        const PAGES_MAX: usize = 16;
        let last = address.checked_add(out.len().saturating_sub(1) as u64)?;
        let count = (last / PAGE_BYTES - address / PAGE_BYTES) as usize + 1;
        let mut states = [PageState::Present; PAGES_MAX];
        if let Some(states) = states.get_mut(..count) {
            self.states(address, states);
            for (page, state) in states.iter().enumerate() {
                if *state == PageState::Swapped {
                    self.miss(address + page as u64 * PAGE_BYTES);
                    return None;
                }
            }
        }
        self.memory.read(address, out)
    }
}

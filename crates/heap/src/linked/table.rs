//! What the records of the probes add up to: live samples, and what became of the others.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::callers::Left;
use super::layout::{GIVEN, GIVEN_BY_GO, GivenBlock, GoStack, Head, STACK_BYTES, TAKEN};
use crate::probe::{Block, Site};
use crate::reach::untagged;
use bpf::map::begins_with;
use bpf::python::PythonFrame;
use symbols::registers::Registers;

/// Stacks that are told apart; further ones have no addresses.
const STACKS_MAX: usize = 8_192;

/// One record of the ring.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    Given(Given<'a>),
    Taken { time_ns: u64, block: u64 },
}

/// A sampled allocation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Given<'a> {
    pub time_ns: u64,
    pub block: u64,
    pub bytes: u64,
    /// Distance of samples, bytes.
    pub mean: u64,
    /// The allocator's, which was called.
    pub function: u64,
    /// Of the caller, with as much of its stack as was there.
    pub registers: Registers,
    pub stack: &'a [u8],
    /// Of Python, innermost first.
    pub python: Vec<PythonFrame>,
    /// Of the goroutine that called C.
    pub go: Option<Left<'a>>,
}

/// `None`: it is cut, or of no kind that is known.
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let (head, rest) = begins_with::<Head>(bytes)?;
    let (time_ns, block) = (head.at_ns, head.block);
    match head.kind {
        TAKEN => Some(Record::Taken { time_ns, block }),
        GIVEN | GIVEN_BY_GO => {
            let (given, stack) = begins_with::<GivenBlock>(rest)?;
            let GivenBlock {
                bytes,
                mean,
                pc,
                sp,
                fp,
                function,
                copied,
            } = given;
            let behind = stack.get(STACK_BYTES..).unwrap_or(&[]);
            let (python, go) = match head.kind {
                GIVEN => (python(behind), None),
                _ => (Vec::new(), goroutine(behind)),
            };
            Some(Record::Given(Given {
                time_ns,
                block,
                bytes,
                mean,
                function,
                registers: Registers { pc, sp, fp, lr: pc },
                stack: stack.get(..usize::try_from(copied).ok()?)?,
                python,
                go,
            }))
        }
        _ => None,
    }
}

/// Frames up to the first without a code object.
fn python(bytes: &[u8]) -> Vec<PythonFrame> {
    let frames = bytes.chunks_exact(size_of::<PythonFrame>());
    let frames = frames.map(bytemuck::pod_read_unaligned::<PythonFrame>);
    frames.take_while(|frame| frame.code != 0).collect()
}

fn goroutine(bytes: &[u8]) -> Option<Left<'_>> {
    let (GoStack { sp, fp, copied }, stack) = begins_with::<GoStack>(bytes)?;
    let stack = stack.get(..usize::try_from(copied).ok()?)?;
    (sp != 0).then_some(Left { sp, fp, stack })
}

/// A live sample.
#[derive(Debug, Clone, Copy)]
struct Held {
    time_ns: u64,
    bytes: u64,
    weight: f64,
    stack: u64,
}

#[derive(Debug, Default)]
pub struct Table {
    held: HashMap<u64, Held, FixedState>,
    sites: BTreeMap<u64, Site>,
    pub samples: u64,
    freed: u64,
    /// Of those, freed by nobody who was seen.
    unseen: u64,
}

impl Table {
    /// `share`: of such blocks, how many could be samples. `addresses`: return addresses, innermost first.
    pub fn give(&mut self, given: &Given<'_>, share: f64, addresses: &[u64]) {
        let &Given {
            time_ns,
            block,
            bytes,
            mean,
            ..
        } = given;
        if self.held.contains_key(&block) {
            self.unseen += 1;
            self.take(time_ns, block);
        }
        let mut stack = FixedState::with_seed(0).hash_one(addresses);
        if !self.sites.contains_key(&stack) && self.sites.len() >= STACKS_MAX {
            stack = 0;
        }
        let site = self.sites.entry(stack).or_insert_with(|| Site {
            addresses: if stack == 0 {
                Vec::new()
            } else {
                addresses.to_vec()
            },
            why: (stack == 0).then_some("the table of stacks was full"),
            lifetimes: vec![0; abi::LIFETIMES],
            ..Site::default()
        });
        let chance = -(-(bytes.max(1) as f64) / mean.max(1) as f64).exp_m1();
        let weight = 1.0 / (chance * share);
        site.samples += 1;
        site.allocated_bytes += (weight * bytes as f64) as u64;
        self.samples += 1;
        let held = Held {
            time_ns,
            bytes,
            weight,
            stack,
        };
        self.held.insert(block, held);
    }

    pub fn take(&mut self, time_ns: u64, block: u64) {
        let Some(held) = self.held.remove(&block) else {
            return;
        };
        let Some(site) = self.sites.get_mut(&held.stack) else {
            return;
        };
        self.freed += 1;
        let life_ns = time_ns.saturating_sub(held.time_ns);
        site.freed_samples += 1;
        site.freed_bytes += (held.weight * held.bytes as f64) as u64;
        site.lifetime_ns_max = site.lifetime_ns_max.max(life_ns);
        site.lifetimes[abi::lifetime_of(life_ns)] += 1;
    }

    /// Takes a block that was found to be free by then, if it is still the one that was sampled at a time.
    pub fn take_sampled(&mut self, time_ns: u64, block: u64, sampled_ns: u64) {
        if self
            .held
            .get(&block)
            .is_some_and(|held| held.time_ns == sampled_ns)
        {
            self.take(time_ns, block);
        }
    }

    pub fn holds(&self, block: u64) -> bool {
        self.held.contains_key(&block)
    }

    /// See [`super::Traps::unseen_share`].
    pub fn unseen_share(&self) -> f64 {
        self.unseen as f64 / self.freed.max(1) as f64
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Keeps one sample in two, which stands for both; those that go.
    pub fn thin(&mut self) -> Vec<u64> {
        let mut order: Vec<u64> = self.held.keys().copied().collect();
        order.sort_by_key(|block| FixedState::with_seed(self.samples).hash_one(block));
        let gone = order.split_off(order.len() / 2);
        for block in &gone {
            self.held.remove(block);
        }
        self.held.values_mut().for_each(|held| held.weight *= 2.0);
        gone
    }

    /// Forgets what was given from then on; those that go.
    pub fn forget_since(&mut self, from_ns: u64) -> Vec<u64> {
        let young = self.held.iter().filter(|(_, held)| held.time_ns >= from_ns);
        let gone: Vec<u64> = young.map(|(block, _)| *block).collect();
        for block in &gone {
            self.held.remove(block);
        }
        gone
    }

    /// Forgets blocks that went unseen.
    pub fn keep(&mut self, is_live: impl Fn(u64) -> bool) {
        self.held.retain(|block, _| is_live(*block));
    }

    pub fn blocks(&self) -> Vec<Block> {
        let block = |(&address, held): (&u64, &Held)| Block {
            address: untagged(address),
            requested_bytes: held.bytes,
            usable_bytes: usable(held.bytes),
            weight: held.weight,
            time_ns: held.time_ns,
            stack: held.stack,
            role: 0,
        };
        self.held.iter().map(block).collect()
    }

    pub fn sites(&self) -> BTreeMap<u64, Site> {
        self.sites.clone()
    }
}

/// Nobody is asked how large a block became: the next multiple of 16, which is the least that allocators give.
fn usable(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(time_ns: u64, block: u64, bytes: u64) -> Given<'static> {
        Given {
            time_ns,
            block,
            bytes,
            mean: 1,
            ..Given::default()
        }
    }

    #[test]
    fn what_is_given_and_not_taken_is_outstanding() {
        let mut table = Table::default();
        for block in 0..100u64 {
            table.give(&given(1_000, 0x1000 + block * 32, 32), 1.0, &[7, 8]);
        }
        for block in 0..40u64 {
            table.take(5_000_000, 0x1000 + block * 32);
        }
        table.take(5_000_000, 0x9999);
        let blocks = table.blocks();
        let bytes: f64 = blocks
            .iter()
            .map(|b| b.weight * b.requested_bytes as f64)
            .sum();
        assert!((bytes - 60.0 * 32.0).abs() < 1.0, "{bytes}");
        let site = &table.sites()[&blocks[0].stack];
        assert_eq!((site.samples, site.freed_samples), (100, 40));
        assert_eq!(site.lifetime_ns_max, 4_999_000);
        assert_eq!(site.addresses, [7, 8]);
    }

    #[test]
    fn an_address_given_again_was_taken_unseen() {
        let mut table = Table::default();
        table.give(&given(1, 0x10, 16), 1.0, &[7]);
        table.give(&given(2, 0x10, 16), 1.0, &[9]);
        assert_eq!(table.len(), 1);
        let freed: u64 = table.sites().values().map(|site| site.freed_samples).sum();
        assert_eq!((freed, table.unseen_share()), (1, 1.0));
    }

    #[test]
    fn what_was_not_followed_is_forgotten() {
        let mut table = Table::default();
        for block in 1..=10u64 {
            table.give(&given(block, block * 64, 64), 1.0, &[1]);
        }
        let mut gone = table.forget_since(8);
        gone.sort_unstable();
        assert_eq!((gone, table.len()), (vec![512, 576, 640], 7));
    }

    #[test]
    fn thinning_keeps_the_estimate_within_its_error() {
        let mut table = Table::default();
        for block in 0..4_000u64 {
            table.give(&given(1, block * 64, 64), 1.0, &[1]);
        }
        assert_eq!(table.thin().len(), 2_000);
        let bytes: f64 = table.blocks().iter().map(|b| b.weight * 64.0).sum();
        assert_eq!(bytes.round(), 4_000.0 * 64.0);
    }

    #[test]
    fn a_record_cut_anywhere_is_no_record() {
        let head = Head {
            kind: GIVEN,
            ..bytemuck::Zeroable::zeroed()
        };
        let given = GivenBlock {
            copied: 16,
            ..bytemuck::Zeroable::zeroed()
        };
        let mut bytes = [bytemuck::bytes_of(&head), bytemuck::bytes_of(&given)].concat();
        bytes.extend([7; 16]);
        assert!(parse(&bytes).is_some());
        assert!((0..bytes.len()).all(|length| parse(&bytes[..length]).is_none()));
    }
}

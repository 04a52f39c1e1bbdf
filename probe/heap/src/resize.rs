//! Large samples that are resized: one sample each, however often.

use crate::clock;
use crate::guard::Signals;
use crate::probe::{Probe, Removed};
use crate::unwind::Registers;
use sampler::flows::Weight;
use sampler::pace::{CERTAIN_MEAN_BYTES, LARGE_BYTES};

impl Probe {
    /// A block that was taken out has been resized: a large one stays the sample that it was, with
    /// its age, however often it grows; its stack is taken anew with every further MiB, and while it has
    /// none. False: it is a free and a new block.
    pub fn resized(
        &self,
        removed: Removed,
        address: u64,
        (bytes, usable_bytes): (u64, u64),
        registers: Registers,
    ) -> bool {
        let mut sample = removed.sample;
        if sample.mean_bytes != CERTAIN_MEAN_BYTES || bytes < LARGE_BYTES {
            return false;
        }
        let old_bytes = std::mem::replace(&mut sample.requested_bytes, bytes);
        // Who makes it grow is worth more than who began it, and anybody more than nobody.
        let anew =
            old_bytes / LARGE_BYTES != bytes / LARGE_BYTES || self.stacks.is_none(sample.stack);
        match anew.then(|| self.grower(registers)).flatten() {
            None => self.stacks.resized(sample.stack, old_bytes, bytes),
            Some((stack, begun)) => {
                let whole = |bytes| Weight::of(bytes, CERTAIN_MEAN_BYTES, begun);
                self.stacks.moved(sample.stack, whole(old_bytes));
                sample.stack = stack;
                self.stacks.allocated(stack, whole(bytes), begun);
            }
        }
        sample.usable_bytes = usable_bytes;
        self.put_back(Removed { address, sample });
        true
    }

    /// The stack of a resize, and when; `None` when it could not be had, as while another thread unwinds.
    fn grower(&self, registers: Registers) -> Option<(u32, u64)> {
        let begun = clock::monotonic_ns();
        let _signals = Signals::block()?;
        let (stack, origin) = self.stack(registers, begun);
        self.close(begun);
        origin.map(|_| (stack, begun))
    }
}

#[cfg(test)]
mod tests {
    use abi::Sample;

    use super::*;
    use crate::coverage::Harness;

    /// A CI run saw the buffer of a test stand behind the row of all stacks that were refused.
    #[test]
    fn a_large_block_that_grows_while_another_thread_unwinds_keeps_its_stack() {
        let harness = Harness::new(1, 8 << 20, None);
        let probe = &harness.probe;
        let stack = probe.stacks.find(&[1, 2, 3], 0, 0).expect("a row");
        let sample = Sample {
            requested_bytes: LARGE_BYTES,
            mean_bytes: CERTAIN_MEAN_BYTES,
            stack,
            ..Sample::default()
        };
        let (address, bytes) = (4096, 3 * LARGE_BYTES);
        // No code stands at 0: no stack is had from there either.
        let nowhere = Registers {
            pc: 0,
            sp: 0,
            fp: 0,
            lr: 0,
        };
        assert!(probe.resized(
            Removed { address, sample },
            address,
            (bytes, bytes),
            nowhere
        ));
        let grown = probe.take_out(address).expect("still a sample").sample;
        assert_eq!((grown.stack, grown.requested_bytes), (stack, bytes));
        assert!(!probe.stacks.is_none(stack));
        assert!(probe.stacks.is_none(probe.no_stack(1, 0)));
    }
}

//! What a trap costs on this machine, tried on a function of our own.

use std::io;

use rustix::time::ClockId;

use super::functions::{Function, Role};
use super::pace::Cost;
use super::{MEAN_MAX, attach};
use crate::observe::clock::read_ns;

/// Calls that tell what a trap costs, and how often they are made: the quickest time counts, the others were disturbed.
const CALLS: u32 = 200;
const TIMES: usize = 6;

/// Nobody's allocator: probed to learn what a trap costs here.
#[inline(never)]
pub extern "C" fn probed(bytes: usize) -> usize {
    std::hint::black_box(bytes)
}

pub fn own_function() -> io::Result<Function> {
    let address = probed as *const () as u64;
    let maps = procfs::process::Process::myself().and_then(|own| own.maps());
    let maps = maps.map_err(io::Error::other)?;
    let map = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address));
    let map = map.ok_or_else(|| io::Error::other("own code is not mapped"))?;
    Ok(Function {
        name: "probed".to_owned(),
        role: Role::Give { bytes: 0 },
        throws: false,
        file_offset: address - map.address.0 + map.offset,
        code: address..address + 1,
    })
}

/// What traps cost on this machine.
pub fn measure_cost() -> io::Result<Cost> {
    let plain_ns = calls_ns();
    let (maps, _programs, _attached) = attach(std::process::id(), &[own_function()?])?;
    // Every byte is a sample; then none is, for what a CPU drew last goes on until it is reached.
    maps.mean.write(0, 0);
    let samples_ns = calls_ns();
    maps.mean.write(0, MEAN_MAX);
    let hits_ns = calls_ns();
    let each = |more: f64, less: f64| (more - less).max(0.0) / f64::from(CALLS);
    Ok(Cost {
        hit_ns: each(hits_ns, plain_ns),
        sample_ns: each(samples_ns, hits_ns),
    })
}

fn calls_ns() -> f64 {
    let cpu = || read_ns(ClockId::ThreadCPUTime);
    let time = |_| {
        let begin = cpu();
        for _ in 0..CALLS {
            std::hint::black_box(probed(std::hint::black_box(1)));
        }
        (cpu() - begin) as f64
    };
    (0..TIMES).map(time).fold(f64::MAX, f64::min)
}

//! What the probe keeps beside the counts: mappings by hand, who frees what another allocated, how long
//! calls took, and large blocks that are resized again and again.

mod subject;

use std::path::PathBuf;

use abi::{Snapshot, region_flag};
use subject::{Subject, compile, read_tables};

const GLIBC: (&str, Option<PathBuf>) = ("glibc", None);
const MIB: u64 = 1 << 20;

/// Runs a program to its second mark, and reads the tables there.
fn at_the_end(source: &str, env: &[(&str, &str)], check: impl FnOnce(&Snapshot)) {
    let Some(program) = compile(source, &[]) else {
        return;
    };
    let allocator = (GLIBC.0.to_owned(), GLIBC.1);
    let mut running = Subject::start(&program, &[], &allocator, env);
    running.mark().expect("the first mark");
    running.go_on();
    let mark = running.mark().expect("the second mark");
    let copy = read_tables(mark.pid).unwrap_or_else(|anchor| panic!("no mapping, {anchor:?}"));
    check(&abi::read(&copy).unwrap());
    running.go_on();
    running.end();
}

#[test]
fn mappings_made_by_hand_stand_with_their_callers() {
    at_the_end("mappings.c", &[], |snapshot| {
        let anonymous = |row: &abi::Region| row.flags & region_flag::ANONYMOUS != 0;
        let regions: Vec<abi::Region> = snapshot.regions().filter(anonymous).collect();
        let sum: u64 = regions.iter().map(|row| row.bytes).sum();
        assert_eq!(sum, 72 * MIB, "{regions:?}");
        let without_rights = regions
            .iter()
            .filter(|row| row.flags & region_flag::NO_ACCESS != 0);
        assert_eq!(without_rights.map(|row| row.bytes).sum::<u64>(), MIB);
        for region in &regions {
            let stack = snapshot.stack(region.stack).expect("a stack");
            assert!(snapshot.frames(&stack).count() > 2, "{region:?}");
        }
        let sums = snapshot.header.mappings;
        assert!(sums.program_maps >= 2003, "{sums:?}");
        assert_eq!(sums.unmaps, 2001, "{sums:?}");
        assert_eq!(
            (sums.break_grown_bytes, sums.break_shrunk_bytes),
            (MIB, MIB)
        );
        assert_eq!(sums.remap_grown_bytes, 16 * MIB);
    });
}

#[test]
fn the_matrix_says_who_frees_what_another_allocated() {
    // The buffer that is resized beside them draws 18 GB: a mean that adapts rises to megabytes, and what is
    // handed over (140 MB) would be some tens of samples, off by a third now and then.
    let mean = [("HIGHWATER_PROBE_MEAN", "16384")];
    at_the_end("handover.c", &mean, |snapshot| {
        let role = |wanted: &[u8]| {
            let named = |role: &abi::Role| role.name.starts_with(wanted);
            snapshot
                .roles()
                .find(|(_, role)| named(role))
                .expect("a role")
                .0
        };
        let (producer, consumer) = (role(b"producer"), role(b"consumer"));
        let bytes = |by, freed_by| snapshot.flow(by, freed_by).map_or(0, |flow| flow.bytes);
        let handed = bytes(producer, consumer) as f64;
        // 400 rounds of 500 blocks of 700 bytes are 140 MB: 8,545 samples, an error of 1.1 %.
        let truth = 400.0 * 500.0 * 700.0;
        assert!((handed / truth - 1.0).abs() < 0.05, "{handed} of {truth}");
        assert!(bytes(consumer, producer) + bytes(producer, producer) < 1 << 20);
        let (allocs, frees) = snapshot
            .latencies()
            .fold((0, 0), |sum, row| (sum.0 + row.allocs, sum.1 + row.frees));
        assert!(
            allocs > 100 && frees > 100,
            "{allocs} and {frees} calls were timed"
        );
    });
}

/// 3,000 resizes of a buffer of up to 12 MiB draw 18 GB of distance: it must be a sample all the same,
/// for itself alone, and its growth no turnover.
#[test]
fn a_large_block_stays_a_sample_while_it_is_resized() {
    at_the_end("handover.c", &[], |snapshot| {
        let large: Vec<abi::Sample> = snapshot
            .samples()
            .map(|(_, sample)| sample)
            .filter(|sample| sample.requested_bytes > 11 * MIB)
            .collect();
        let [sample] = large[..] else {
            panic!("{} samples of the buffer", large.len());
        };
        assert_eq!(sample.mean_bytes, 1);
        let stack = snapshot.stack(sample.stack).expect("a stack");
        assert_eq!(stack.freed_bytes, 0);
        let held = stack.allocated_bytes;
        assert!(
            (11 * MIB..13 * MIB).contains(&held),
            "{held} allocated there"
        );
    });
}

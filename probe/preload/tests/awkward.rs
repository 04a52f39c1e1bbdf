//! Deliberately awkward programs under the probe, over each allocator of this machine: they must
//! end as without it, and the probe's exact counts must be the program's own within 1 %.

mod subject;

use abi::{State, bytes_mode};
use subject::{Mark, Subject, Totals, allocators, compile, read_tables, totals, works_without};

/// The C library and the loader allocate a little between two marks (buffers, thread records),
/// unseen by the program.
const SLACK_BLOCKS: f64 = 60.0;
const SLACK_BYTES: f64 = 64.0 * 1024.0;

/// Runs a program over every allocator; at every mark compares the probe's counts since the first
/// with its own.
fn agrees(source: &str, arguments: &[&str], env: &[(&str, &str)]) {
    agrees_within(source, arguments, env, CLOSE);
}

/// What a comparison allows.
#[derive(Clone, Copy)]
struct Slack {
    blocks: f64,
    /// Threads that may be writing a row while the program waits, or were when it forked: the child inherits a
    /// row half written, whose writer it has not.
    writers: usize,
}

/// Nobody writes while the program waits at its mark.
const CLOSE: Slack = Slack {
    blocks: SLACK_BLOCKS,
    writers: 0,
};

fn agrees_within(source: &str, arguments: &[&str], env: &[(&str, &str)], slack: Slack) {
    let Some(program) = compile(source, &[]) else {
        return;
    };
    for allocator in allocators() {
        if !works_without(&program, arguments, &allocator) {
            continue;
        }
        let mut env = env.to_vec();
        env.push(("HIGHWATER_PROBE_BYTES", "exact"));
        let mut running = Subject::start(&program, arguments, &allocator, &env);
        let mut first: Option<(Mark, Totals)> = None;
        while let Some(mark) = running.mark() {
            let now = probe_totals(&mark, &running.name, slack.writers);
            match &first {
                None => first = Some((mark, now)),
                Some((mark_before, before)) => compare(
                    &running.name,
                    (mark_before, before),
                    (&mark, &now),
                    slack.blocks,
                ),
            }
            running.go_on();
        }
        let name = running.name.clone();
        let errors = running.end();
        assert!(
            first.is_some(),
            "{name}: never reached a mark
{errors}"
        );
    }
}

fn probe_totals(mark: &Mark, name: &str, writers: usize) -> Totals {
    let copy =
        read_tables(mark.pid).unwrap_or_else(|anchor| panic!("{name}: no mapping, {anchor:?}"));
    let snapshot = abi::read(&copy).unwrap();
    assert_eq!(snapshot.state(), State::On, "{name}");
    assert_ne!(snapshot.header.bytes_mode, bytes_mode::SAMPLED, "{name}");
    assert!(snapshot.header.total_bytes <= 8 << 20, "{name}");
    let torn = snapshot.torn_samples();
    assert!(torn <= writers, "{name}: {torn} rows torn");
    totals(&snapshot)
}

fn compare(
    name: &str,
    (mark_before, before): (&Mark, &Totals),
    (mark, now): (&Mark, &Totals),
    slack_blocks: f64,
) {
    let close = |truth: f64, counted: f64, slack: f64| {
        (truth - counted).abs() <= truth.abs() * 0.01 + slack
    };
    let (blocks, bytes) = (
        (mark.blocks - mark_before.blocks) as f64,
        (mark.bytes - mark_before.bytes) as f64,
    );
    let counted_blocks = (now.live_blocks - before.live_blocks) as f64;
    let counted_bytes = (now.live_bytes - before.live_bytes) as f64;
    assert!(
        close(blocks, counted_blocks, slack_blocks),
        "{name}: {counted_blocks} blocks counted, {blocks} true"
    );
    assert!(
        close(bytes, counted_bytes, SLACK_BYTES.max(slack_blocks * 400.0)),
        "{name}: {counted_bytes} bytes counted, {bytes} true"
    );
}

#[test]
fn the_whole_family() {
    agrees("family.c", &[], &[]);
    // A sample for every block: the slow path all the way.
    agrees("family.c", &[], &[("HIGHWATER_PROBE_MEAN", "1")]);
}

#[test]
fn every_operator() {
    agrees("operators.cpp", &[], &[]);
    agrees("operators.cpp", &[], &[("HIGHWATER_PROBE_MEAN", "1")]);
}

#[test]
fn a_program_with_operators_of_its_own() {
    agrees("own_operators.cpp", &[], &[]);
    agrees("own_operators.cpp", &[], &[("HIGHWATER_PROBE_MEAN", "1")]);
}

#[test]
fn a_program_at_a_fixed_address() {
    // Compiled once, and from now on found by its name.
    if compile("fixed.cpp", &["-no-pie", "-fno-pie"]).is_some() {
        agrees("fixed.cpp", &[], &[]);
    }
}

#[test]
fn what_cannot_be_had() {
    agrees("refuses.c", &[], &[]);
    agrees("refuses.c", &[], &[("HIGHWATER_PROBE_MEAN", "1")]);
    agrees("throws.cpp", &[], &[]);
}

#[test]
fn before_main_and_after_it() {
    let Some(program) = compile("early.c", &[]) else {
        return;
    };
    for allocator in allocators() {
        let mut running = Subject::start(
            &program,
            &[],
            &allocator,
            &[("HIGHWATER_PROBE_BYTES", "exact")],
        );
        let mark = running.mark().unwrap();
        let now = probe_totals(&mark, &running.name, CLOSE.writers);
        let nothing = Mark {
            blocks: 0,
            bytes: 0,
            pid: mark.pid,
        };
        compare(
            &running.name,
            (&nothing, &Totals::default()),
            (&mark, &now),
            SLACK_BLOCKS,
        );
        running.go_on();
        running.end();
    }
}

#[test]
fn storms_of_threads() {
    agrees("threads.c", &[], &[]);
}

#[test]
fn more_threads_than_rows() {
    // The smallest cap has 256 rows.
    // The C library has a block of its own for each thread, and keeps it for the next.
    let slack = Slack {
        blocks: 1400.0 + SLACK_BLOCKS,
        ..CLOSE
    };
    agrees_within("crowd.c", &["700"], &[("HIGHWATER_PROBE_CAP", "2M")], slack);
}

#[test]
fn forks_among_threads() {
    let slack = Slack {
        writers: 3,
        ..CLOSE
    };
    agrees_within("fork.c", &[], &[], slack);
}

#[test]
fn vfork_spawn_raw_fork_and_exec() {
    agrees("processes.c", &[], &[]);
}

#[test]
fn handlers_that_allocate_and_jump() {
    agrees("signals.c", &[], &[("HIGHWATER_PROBE_MEAN", "10000")]);
}

#[test]
fn longjmp_and_other_stacks() {
    agrees("longjmp.c", &[], &[("HIGHWATER_PROBE_MEAN", "1000")]);
}

#[test]
fn every_descriptor_closed() {
    agrees("closes.c", &[], &[]);
}

#[test]
fn its_mapping_cannot_be_taken_away() {
    // SAFETY: seals nothing; without the call (before Linux 6.10) an error.
    if unsafe { libc::syscall(libc::SYS_mseal, 0, 0, 0) } != 0 {
        subject::skipped("this kernel cannot seal mappings");
        return;
    }
    agrees("unmaps.c", &[], &[]);
}

#[test]
fn blocks_that_grow_and_are_written_to_the_end() {
    agrees("realloc.c", &[], &[]);
    agrees("realloc.c", &[], &[("HIGHWATER_PROBE_MEAN", "1")]);
}

#[test]
fn a_first_malloc_under_the_lock_of_locales() {
    let Some(library) = compile("locale_library.c", &["-shared", "-fPIC"]) else {
        return;
    };
    // Compiled once, and from now on found by its name.
    let library = format!("-Wl,--no-as-needed,{}", library.display());
    assert!(compile("locale.c", &[&library]).is_some());
    agrees("locale.c", &[], &[]);
}

#[test]
fn libraries_that_come_and_go() {
    let Some(plugin) = compile("plugin.c", &["-shared", "-fPIC"]) else {
        return;
    };
    // A thread allocates beside it from before the first mark on.
    let slack = Slack {
        writers: 1,
        ..CLOSE
    };
    let mean = [("HIGHWATER_PROBE_MEAN", "1000")];
    agrees_within("dlopen.c", &[plugin.to_str().unwrap()], &mean, slack);
}

#[test]
fn code_at_the_addresses_of_a_closed_library() {
    let shared = ["-shared", "-fPIC"];
    let plugins = ["large_plugin.c", "larger_plugin.c"].map(|source| compile(source, &shared));
    let [Some(plugin), Some(larger)] = plugins else {
        return;
    };
    let Some(program) = compile("closed_code.c", &[]) else {
        return;
    };
    for allocator in allocators() {
        for mappings in 0..9 {
            let arguments = [plugin.clone(), larger.clone(), mappings.to_string().into()];
            ends_the_same(&program, &arguments, &allocator);
        }
    }
}

#[test]
fn programs_that_confine_themselves() {
    let Some(program) = compile("confined.c", &[]) else {
        return;
    };
    for allocator in allocators() {
        for how in ["strict", "kill", "thread", "twice", "together"] {
            ends_the_same(&program, &[how.into()], &allocator);
        }
    }
}

#[test]
fn programs_that_start_confined() {
    let Some(program) = compile("starts_confined.c", &[]) else {
        return;
    };
    for allocator in allocators() {
        ends_the_same(&program, &[], &allocator);
    }
}

/// With room for all that is the program's, and with too little even for that. Over the C library's own allocator:
/// others reserve more than a user may lock.
#[test]
fn a_program_that_locks_its_memory() {
    let Some(program) = compile("locks.c", &[]) else {
        return;
    };
    let own = ("glibc".to_owned(), None);
    for more in ["1048576", "-1048576"] {
        ends_the_same(&program, &[more.into()], &own);
    }
}

/// The program's handler runs, wherever in the probe the stack ends.
#[test]
fn a_stack_that_ends_inside_malloc() {
    let Some(program) = compile("overflows.c", &[]) else {
        return;
    };
    ends_the_same(&program, &[], &("glibc".to_owned(), None));
}

/// A library that comes with the probe takes memory, and what the program opens later may be there already.
#[test]
fn no_library_comes_with_the_probe() {
    let Some(program) = compile("brings.c", &[]) else {
        return;
    };
    ends_the_same(&program, &[], &("glibc".to_owned(), None));
}

/// Without GNU's table of names the probe calls its free once, at the start: what it allocates in it must be what it
/// asked for.
#[test]
fn another_layer_that_sets_itself_up_in_its_first_free() {
    over_a_layer("layer.c");
}

/// The C library's malloc_usable_size would read behind such a block.
#[test]
fn another_layer_with_headers_of_its_own() {
    over_a_layer("shifts.c");
}

fn over_a_layer(source: &str) {
    for table in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        let layer = compile(source, &["-shared", "-fPIC", "-fno-builtin", table]);
        let (Some(layer), Some(program)) = (layer, compile("layered.c", &["-fno-builtin"])) else {
            return;
        };
        ends_the_same(&program, &[], &("a layer".to_owned(), Some(layer)));
    }
}

/// The frames of the probe that an exception passes have nothing to clean up.
#[test]
fn another_layer_whose_operators_throw() {
    let layer = compile("throwing_layer.cpp", &["-shared", "-fPIC"]);
    let (Some(layer), Some(program)) = (layer, compile("thrown.cpp", &[])) else {
        return;
    };
    ends_the_same(&program, &[], &("operators".to_owned(), Some(layer)));
}

/// The first call that reaches it must be the program's own.
#[test]
fn an_allocator_that_bears_no_free_before_its_first_block() {
    let allocator = compile("unready.c", &["-shared", "-fPIC", "-fno-builtin"]);
    let (Some(allocator), Some(program)) = (allocator, compile("layered.c", &["-fno-builtin"]))
    else {
        return;
    };
    let layer = compile("layer.c", &["-shared", "-fPIC", "-fno-builtin"]).unwrap_or_default();
    let mut layered = layer.into_os_string();
    layered.push(":");
    layered.push(&allocator);
    for preload in [allocator, layered.into()] {
        let name = preload.to_string_lossy().into_owned();
        ends_the_same(&program, &[], &(name, Some(preload)));
    }
}

/// The program's end and output are with the probe what they are without.
fn ends_the_same(
    program: &std::path::Path,
    arguments: &[std::path::PathBuf],
    (name, file): &(String, Option<std::path::PathBuf>),
) {
    let run = |preload: std::ffi::OsString| {
        let mut command = std::process::Command::new(program);
        // Every block is a sample.
        command.args(arguments).env("HIGHWATER_PROBE_MEAN", "1");
        let out = command.env("LD_PRELOAD", preload).output().unwrap();
        (out.status, out.stdout)
    };
    let alone = file.clone().unwrap_or_default().into_os_string();
    let mut with_probe = subject::library().into_os_string();
    if !alone.is_empty() {
        with_probe.push(":");
        with_probe.push(&alone);
    }
    let over_glibc = alone.is_empty();
    let without = run(alone);
    // Other allocators may have defects, or make calls, of their own.
    assert!(
        !over_glibc || without.0.success(),
        "{name}, {arguments:?}: {without:?}"
    );
    assert_eq!(run(with_probe), without, "{name}, {arguments:?}");
}

/// Where the program's blocks lie is a matter of what was allocated before: nothing may have been by the probe.
#[test]
fn the_heap_is_as_without_the_probe() {
    let Some(program) = compile("untouched_heap.cpp", &[]) else {
        return;
    };
    for allocator in allocators() {
        if allocator.1.is_none() {
            ends_the_same(&program, &[], &allocator);
        }
    }
}

/// An allocator sets itself up in the program's first call, not in one of the probe's, and refuses in its own words.
#[test]
fn errno_after_the_first_blocks_and_after_those_that_overflow() {
    let Some(program) = compile("first_errno.c", &[]) else {
        return;
    };
    let other = compile("overflow_layer.c", &["-shared", "-fPIC", "-fno-builtin"]);
    let other = other.map(|layer| ("other words".to_owned(), Some(layer)));
    for allocator in allocators().into_iter().chain(other) {
        ends_the_same(&program, &[], &allocator);
    }
}

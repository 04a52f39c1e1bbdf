//! Uprobes on functions of our own.

use super::callers::Go;
use super::cost::{GIVE, own_function};
use super::functions::Role;
use super::table::Record;
use super::*;
use bpf::allowed::Allowed;
use bpf::fdinfo::Timed;
use bpf::python::{FRAMES, Interpreter, Made};
use bpf::uprobes::own::{alone, emulated};
use observe::exits::ResultIn;
use symbols::python::layout::Layout;
use testkit::skipped;

/// Every call is a sample while exits are probed: each is counted once, with the byte count that was asked for.
#[test]
fn calls_are_counted_alike_on_old_kernels_and_new() {
    let _alone = alone();
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        skipped("uprobes with programs on them need root");
        return;
    }
    for way in [Way::Multi, Way::Events] {
        let probed = Probed::attach(
            &Target::own().unwrap(),
            &[own_function(emulated, GIVE).unwrap()],
            way,
            ROOM,
            Callers::default(),
        );
        if way == Way::Multi && probed.is_err() {
            skipped("this kernel has no probes on many places at once");
            continue;
        }
        let mut probed = probed.unwrap();
        probed.maps.mean.write(0, 0);
        let timed = Timed::begin();
        for bytes in 1..=50 {
            emulated(bytes);
        }
        probed.maps.sampling.write(0, 0);
        emulated(77);
        probed.maps.sampling.write(0, 1);
        probed.allocations = None;
        emulated(99);
        let mut maps = probed.maps;
        let runs = probed.programs.runs();
        match timed {
            Ok(_timed) => assert_eq!(runs, maps.cpus.sum(|cpu| cpu.hits), "{way:?}"),
            Err(error) => skipped(&format!("programs cannot be timed: {error}")),
        }
        let mut given = Vec::new();
        maps.ring.drain(|bytes| match table::parse(bytes) {
            Some(Record::Given(sample)) => given.push((sample.bytes, sample.block)),
            other => panic!("{other:?}"),
        });
        let expected: Vec<(u64, u64)> = (1..=50).map(|bytes| (bytes, bytes)).collect();
        assert_eq!(given, expected, "{way:?}");
        assert_eq!(
            maps.cpus.sum(|cpu| cpu.hits),
            102,
            "entries and exits, {way:?}"
        );
        assert_eq!(maps.cpus.sum(|cpu| cpu.returned), 50, "{way:?}");
        assert_eq!(maps.lost.read(0), 0, "{way:?}");
    }
}

/// Two functions of one role, of which one has its argument elsewhere.
#[test]
#[cfg(target_arch = "x86_64")]
fn each_function_is_read_where_its_argument_is() {
    use super::cost::moved;
    let _alone = alone();
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        skipped("uprobes with programs on them need root");
        return;
    }
    let functions = [emulated, moved].map(|probed| own_function(probed, GIVE).unwrap());
    assert_ne!(functions[0].arguments, functions[1].arguments);
    let Probed {
        mut maps,
        allocations,
        ..
    } = attach(&Target::own().unwrap(), &functions, ROOM, &Callers::default).unwrap();
    maps.mean.write(0, 0);
    let called: Vec<u64> = (1..=20)
        .flat_map(|n| [emulated(n), moved(100 + n)])
        .map(|n| n as u64)
        .collect();
    drop(allocations);
    let mut given = Vec::new();
    maps.ring.drain(|bytes| match table::parse(bytes) {
        Some(Record::Given(sample)) => given.push((sample.bytes, sample.block)),
        other => panic!("{other:?}"),
    });
    // What a CPU drew before the mean was nothing goes on until it is reached.
    assert!(given.len() > 4, "{given:?}");
    assert!(
        given
            .iter()
            .all(|(bytes, block)| bytes == block && called.contains(bytes)),
        "{given:?}"
    );
    assert!(given.iter().any(|(bytes, _)| *bytes > 100), "{given:?}");
}

/// Every role, and where the return address is not on the stack too, as on aarch64.
#[test]
fn the_kernel_takes_the_programs_of_every_role() {
    let _alone = alone();
    if Allowed::try_all().bpf.is_err() {
        skipped("programs need root");
        return;
    }
    let mut function = own_function(emulated, GIVE).unwrap();
    let (mut object, _maps) =
        layout::open(std::slice::from_ref(&function), ROOM, Callers::default()).unwrap();
    let kind = Way::Events.kind().unwrap();
    let (block, bytes) = (0, 1);
    for role in [
        Role::Give { bytes },
        Role::GiveMany { count: 0, bytes },
        Role::Again {
            block,
            bytes,
            calls_on: true,
        },
        Role::GiveInto { place: 0, bytes },
        Role::Take { block },
    ] {
        for returns_by_stack in [0, 1] {
            object.set("RETURNS_BY_STACK", returns_by_stack);
            function.role = role;
            layout::set_entry(&mut object, &function);
            object.load("on_entry", kind).unwrap();
            layout::set_exit(&mut object, ResultIn::FirstArgument, false);
            object.load("on_exit", kind).unwrap();
        }
    }
}

fn by_python(python: Option<Interpreter>) -> Callers {
    Callers {
        python,
        ..Callers::default()
    }
}

/// Frames of Python in the records of calls by this thread, whose state is as `change` leaves it.
fn walked(frames: u64, change: impl Fn(&mut Made)) -> Option<Vec<Vec<u64>>> {
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        skipped("uprobes with programs on them need root");
        return None;
    }
    let mut made = Made::deep(frames);
    change(&mut made);
    let callers = || by_python(made.interpreter().ok());
    let functions = [own_function(emulated, GIVE).unwrap()];
    let probed = attach(&Target::own().unwrap(), &functions, ROOM, &callers).unwrap();
    let Probed {
        mut maps,
        allocations,
        ..
    } = probed;
    maps.mean.write(0, 0);
    for bytes in 1..=20 {
        emulated(bytes);
    }
    drop(allocations);
    let mut walked = Vec::new();
    maps.ring.drain(|bytes| match table::parse(bytes) {
        Some(Record::Given(sample)) => {
            walked.push(sample.python.iter().map(|frame| frame.code).collect())
        }
        other => panic!("{other:?}"),
    });
    assert!(walked.len() > 4, "{walked:?}");
    Some(walked)
}

#[test]
fn frames_of_python_are_walked_from_the_state_of_the_thread() {
    let _alone = alone();
    for frames in [0, 1, 5, 23, 24, 25, 400] {
        let Some(walked) = walked(frames, |_| {}) else {
            return;
        };
        let expected: Vec<u64> = (1..=frames.min(FRAMES as u64)).collect();
        assert!(walked.iter().all(|codes| *codes == expected), "{walked:?}");
    }
}

/// Whatever is in the process's memory, a walk has an end, and gives what it read until then.
#[test]
fn frames_that_are_garbage_end_the_walk() {
    const PREVIOUS: usize = 1;
    let _alone = alone();
    for wild in [
        1,
        0x1000,
        u64::MAX,
        u64::MAX - 7,
        0xffff_8880_0000_0000,
        1 << 63,
    ] {
        let Some(walked) = walked(5, |made| made.frames[2][PREVIOUS] = wild) else {
            return;
        };
        assert!(walked.iter().all(|codes| *codes == [1, 2, 3]), "{walked:?}");
    }
    let in_a_circle = |made: &mut Made| made.frames[2][PREVIOUS] = made.frames[2].as_ptr() as u64;
    let walked_in_a_circle = walked(5, in_a_circle).unwrap();
    let expected: Vec<u64> = [1, 2].into_iter().chain([3; FRAMES - 2]).collect();
    assert!(walked_in_a_circle.iter().all(|codes| *codes == expected));
}

/// A state that says that it belongs to another thread, or that leads nowhere, is not followed.
#[test]
fn the_state_of_another_thread_is_not_followed() {
    let _alone = alone();
    let layout = Made::layout();
    let [thread, next] = [layout.thread_id, layout.next_thread].map(|at| (at / 8) as usize);
    let number = thread + 1;
    let itself = |made: &mut Made| {
        made.state[number] += 1;
        made.state[next] = made.state.as_ptr() as u64;
    };
    let changes: [&dyn Fn(&mut Made); 4] = [
        &|made| made.state[number] += 1,
        &|made| made.state[thread] = 0,
        &|made| *made.newest = u64::MAX,
        &itself,
    ];
    for change in changes {
        let Some(walked) = walked(5, change) else {
            return;
        };
        assert!(walked.iter().all(Vec::is_empty), "{walked:?}");
    }
}

/// What a walk of all frames adds to a sample.
#[test]
fn walks_cost_little() {
    let _alone = alone();
    let made = Made::deep(1);
    let costs =
        [None, made.interpreter().ok()].map(|python| super::cost::measure_cost(&by_python(python)));
    match costs {
        [Ok(without), Ok(with)] => {
            eprintln!(
                "a sample: {:.0} ns without Python, {:.0} ns with {FRAMES} frames",
                without.sample_ns, with.sample_ns
            );
            assert!(with.sample_ns < without.sample_ns + 100_000.0);
        }
        [Err(error), _] | [_, Err(error)] => skipped(&format!("uprobes cannot be tried: {error}")),
    }
}

/// Of every version that is known, whatever its frames are like: here they are garbage to most.
#[test]
fn the_kernel_takes_the_walks_of_every_version() {
    let _alone = alone();
    if Allowed::try_all().bpf.is_err() {
        skipped("programs need root");
        return;
    }
    let function = own_function(emulated, GIVE).unwrap();
    let made = Made::deep(3);
    for minor in 8..=14 {
        let python = made.interpreter_as(Layout::of(minor).unwrap()).unwrap();
        let functions = std::slice::from_ref(&function);
        let probed = Probed::attach(
            &Target::own().unwrap(),
            functions,
            Way::Events,
            ROOM,
            by_python(Some(python)),
        );
        let Ok(probed) = probed else {
            // It takes the program, if not the probe.
            let python = made.interpreter_as(Layout::of(minor).unwrap()).unwrap();
            let (mut object, _maps) =
                layout::open(functions, ROOM, by_python(Some(python))).unwrap();
            layout::set_exit(&mut object, ResultIn::ReturnRegister, false);
            object.load("on_exit", Way::Events.kind().unwrap()).unwrap();
            continue;
        };
        probed.maps.mean.write(0, 0);
        for bytes in 1..=50 {
            emulated(bytes);
        }
        assert_eq!(probed.maps.lost.read(0), 0, "3.{minor}");
    }
}

/// Of a Go program that calls C, of versions before and since 1.22.
#[test]
fn the_kernel_takes_the_search_for_a_goroutine() {
    let _alone = alone();
    if Allowed::try_all().bpf.is_err() {
        skipped("programs need root");
        return;
    }
    let function = own_function(emulated, GIVE).unwrap();
    for depth_at in [1, 6] {
        let mut go = Go::unfound();
        go.depth_at = depth_at;
        let callers = Callers {
            go: Some(go),
            ..Callers::default()
        };
        let functions = std::slice::from_ref(&function);
        let (mut object, _maps) = layout::open(functions, ROOM, callers).unwrap();
        layout::set_exit(&mut object, ResultIn::ReturnRegister, false);
        object.load("on_exit", Way::Events.kind().unwrap()).unwrap();
    }
}

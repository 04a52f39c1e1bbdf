//! Stacks of this process, unwound from here.

use super::*;

fn stack() -> OtherStack {
    let memory = Box::leak(vec![0u8; crate::layout::STACK_BYTES].into_boxed_slice());
    // SAFETY: memory of the test's own, never given back.
    unsafe { OtherStack::new(memory.as_mut_ptr(), memory.len()) }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn trace_here(unwinder: &Unwinder) -> Option<Trace> {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: reads registers.
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp);
    }
    let trace = unwinder.trace(Registers { pc, sp, fp, lr: 0 }, &mut |_| {}, |trace| *trace);
    std::hint::black_box(trace)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_caller_is_the_first_frame_and_the_stack_goes_to_its_end() {
    // SAFETY: tests prepare the same again.
    unsafe { modules::prepare() };
    let unwinder = Unwinder::new((0, 0), None, stack());
    let thread = std::thread::spawn(move || {
        trace_here(&unwinder).map(|trace| (trace.frames().to_vec(), trace.flags))
    });
    let (frames, flags) = thread.join().unwrap().expect("nobody else is unwinding");
    assert!(frames.len() >= 4, "{frames:x?}");
    assert_eq!(flags, 0, "the thread's entry was reached");
    let last = modules::find(*frames.last().unwrap() - 1).unwrap();
    let libc_object = modules::find(libc::getpid as *const () as u64).unwrap();
    assert_eq!(
        last.start, libc_object.start,
        "threads begin in the C library"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_second_unwinding_at_the_same_time_is_refused() {
    // SAFETY: tests prepare the same again.
    unsafe { modules::prepare() };
    let unwinder = Unwinder::new((0, 0), None, stack());
    unwinder.busy.store(true, Ordering::Relaxed);
    assert!(trace_here(&unwinder).is_none());
    unwinder.after_fork();
    assert!(
        trace_here(&unwinder).is_none(),
        "its lists may be half-changed"
    );
}

#[test]
fn registers_of_nowhere_end_at_once() {
    // SAFETY: tests prepare the same again.
    unsafe { modules::prepare() };
    let unwinder = Unwinder::new((0, 0), None, stack());
    for registers in [
        Registers {
            pc: 0,
            sp: 0,
            fp: 0,
            lr: 0,
        },
        Registers {
            pc: 8,
            sp: 16,
            fp: 24,
            lr: 0,
        },
        Registers {
            pc: u64::MAX,
            sp: u64::MAX - 7,
            fp: u64::MAX,
            lr: u64::MAX,
        },
    ] {
        let trace = unwinder
            .trace(registers, &mut |_| {}, |trace| *trace)
            .unwrap();
        assert!(trace.frames().len() <= 1, "{:x?}", trace.frames());
    }
}

#[test]
fn what_comes_behind_takes_the_place_of_the_outermost() {
    let mut trace = Trace {
        frames: std::array::from_fn(|at| at as u64),
        depth: DEPTH_MAX,
        flags: 0,
        root: 0,
        caller_object: 0,
    };
    trace.end_with(&[100, 101], 3);
    assert_eq!(trace.frames(), [0, 1, 2, 100, 101]);
    assert_eq!(trace.flags, stack_flag::DEEPER);
    (trace.depth, trace.flags) = (2, 0);
    trace.end_with(&[100], 3);
    assert_eq!((trace.frames(), trace.flags), (&[0, 1, 100][..], 0));
    trace.end_with(&[7; DEPTH_MAX], DEPTH_MAX);
    assert_eq!(
        trace.frames().len(),
        DEPTH_MAX,
        "and never more than there is room for"
    );
}

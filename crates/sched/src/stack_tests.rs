//! Which function is to blame, of made stacks.

use super::*;

fn stack(names: &[(&str, &str)]) -> Stack {
    let frame = |(name, module): &(&str, &str)| Frame {
        name: (*name).into(),
        module: (*module).into(),
        start: 0,
        bytes: 0,
        package: String::new(),
        borrowed: false,
        interpreter: false,
    };
    Stack {
        addresses: Rc::from([]),
        frames: names.iter().map(frame).collect(),
        allocator: false,
        locks: false,
    }
}

#[test]
fn who_gives_memory_back_is_within_who_has_the_lock() {
    let purge = stack(&[
        ("madvise", "libc.so.6"),
        ("drop_pages", "service"),
        ("evict", "service"),
        ("start_thread", "libc.so.6"),
    ]);
    assert_eq!(purge.own_function_within(Some("evict")), Some("drop_pages"));
    assert_eq!(
        purge.own_function_within(Some("flush")),
        None,
        "seen at another time"
    );
    assert_eq!(purge.own_function_within(None), None);
}

#[test]
fn the_function_to_blame_is_the_programs_own() {
    let c = stack(&[
        ("__libc_recv", "libc.so.6"),
        ("http_post", "service"),
        ("export_batch", "service"),
        ("start_thread", "libc.so.6"),
    ]);
    assert_eq!(c.function(), Some("http_post"));
    assert_eq!(c.entry().map(|f| f.name.as_str()), Some("export_batch"));
    let rust = stack(&[
        ("syscall", "libc.so.6"),
        ("std::sys::sync::mutex::futex::Mutex::wake", "service"),
        ("service::flush", "service"),
        (
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "service",
        ),
    ]);
    assert_eq!(rust.function(), Some("service::flush"));
    assert_eq!(stack(&[]).function(), None);
}

#[test]
fn a_lock_of_the_programs_own_is_not_the_function_that_held() {
    let names = |names: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        names.iter().map(|name| (*name, "service")).collect()
    };
    let release = stack(&names(&["own_unlock", "flush", "main_loop"]));
    let during = stack(&names(&["recv", "ask", "flush", "main_loop"]));
    assert_eq!(release.held_in(&during, &[]), Some("flush"));
    let by_the_loop = stack(&names(&["recv", "read_all", "ask", "main_loop"]));
    assert_eq!(release.held_in(&by_the_loop, &[]), Some("ask"));
    for nothing in ["main_loop", "other_loop"] {
        assert_eq!(release.held_in(&stack(&names(&[nothing])), &[]), None);
    }
    let rest = stack(&names(&["sleep", "flush", "main_loop"]));
    assert_eq!(release.held_in(&during, &[&rest]), Some("ask"));
}

#[test]
fn a_thread_of_python_is_told_by_what_it_was_started_with() {
    let frame = |name: &str, module: &str, borrowed| Frame {
        name: name.into(),
        module: module.into(),
        start: 0,
        bytes: 0,
        package: String::new(),
        borrowed,
        interpreter: module == "python3.11",
    };
    let frames = [
        frame("recv", "libc.so.6", false),
        frame("sock_recv", "python3.11", false),
        frame("SSLSocket.read", "python", true),
        frame("upload", "python", false),
        frame("ThreadingMixIn.process_request_thread", "python", true),
        frame("Thread.run", "python", true),
        frame("Thread._bootstrap_inner", "python", true),
        frame("Thread._bootstrap", "python", true),
        frame("_PyEval_EvalFrameDefault", "python3.11", false),
        frame("thread_run", "python3.11", false),
        frame("start_thread", "libc.so.6", false),
    ];
    let python = Stack {
        frames: frames.to_vec(),
        ..Stack::default()
    };
    assert_eq!(python.own_function(), Some("upload"));
    let names = python.names();
    assert_eq!((names.len(), names[7].as_str()), (8, "Thread._bootstrap"));
    let beginning = python.beginning().unwrap();
    assert_eq!(beginning, [frames[4].clone()]);
    let native = Stack {
        frames: [&frames[..2], &frames[8..]].concat(),
        ..Stack::default()
    };
    assert_eq!(native.own_function(), None);
    assert!(native.waits_for_python() && !python.waits_for_python());
    let mut of_library = native.clone();
    of_library.frames[3].module = "libopenblas.so.0".into();
    of_library.frames[3].interpreter = true;
    of_library.frames.remove(2);
    assert!(!of_library.waits_for_python(), "a library's own thread");
    assert_eq!(native.beginning().unwrap(), [frames[9].clone()]);
}

#[test]
fn a_wrapper_of_a_release_is_not_who_held() {
    let names = |names: &[&'static str]| {
        let frames: Vec<_> = names.iter().map(|name| (*name, "service")).collect();
        stack(&frames)
    };
    let of_go = names(&[
        "sync.(*Mutex).Unlock",
        "logrus.(*MutexWrap).Unlock",
        "logrus.(*Entry).fireHooks",
    ]);
    assert_eq!(
        of_go.own_function_that_let_go(),
        Some("logrus.(*Entry).fireHooks")
    );
    assert_eq!(
        names(&["shop::Till::unlock"]).own_function_that_let_go(),
        Some("shop::Till::unlock")
    );
}

#[test]
fn a_collector_is_not_the_finalizers_that_it_calls() {
    let of = |names: &[(&str, &str)]| stack(names).collects_garbage();
    assert!(of(&[
        ("v8::internal::MarkCompactCollector::Mark", "node"),
        ("v8::internal::Heap::CollectGarbage", "node"),
        ("main", "node")
    ]));
    assert!(of(&[
        ("v8::internal::Scavenger::ScavengeObject<..>", "node"),
        ("v8::internal::ScavengerCollector::JobTask::Run", "node"),
        ("start_thread", "libc.so.6")
    ]));
    assert!(of(&[
        ("runtime.gcDrain", "shop"),
        ("runtime.gcAssistAlloc", "shop"),
        ("main.take", "shop")
    ]));
    assert!(of(&[
        ("runtime.sweepone", "shop"),
        ("runtime.deductSweepCredit", "shop"),
        ("main.take", "shop")
    ]));
    assert!(!of(&[
        ("Order.__del__", "python"),
        ("gc_collect_main", "python3.11")
    ]));
    assert!(!of(&[("rgc_start_stream", "shop"), ("main", "shop")]));
}

#[test]
fn a_lock_by_its_slow_path() {
    let park = ("parking_lot_core::parking_lot::park", "service");
    for (name, expected) in [
        ("dashmap::lock::RawRwLock::lock_shared_slow", true),
        ("shop::Till::lock_for_the_night", false),
    ] {
        let frames = stack(&[park, (name, "service"), ("main", "service")]).frames;
        assert_eq!(is_locking(&frames), expected, "{name}");
    }
}

#[test]
fn allocation_is_told_by_the_interface() {
    for name in [
        "malloc",
        "__libc_free",
        "madvise",
        "__munmap",
        "__GI_madvise",
        "__GI___libc_free",
        "operator new",
    ] {
        assert!(is_allocation(name), "{name}");
    }
    for name in ["export_batch", "free_list_walk", "remalloc"] {
        assert!(!is_allocation(name), "{name}");
    }
}

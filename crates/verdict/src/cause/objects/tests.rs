//! What a managed heap adds to the cause.

mod live;
mod tasks;

use super::super::{Growth, Part, judge};
use super::*;
use memory::managed::{ManagedGrowth, PartGrowth, Rise, RootGrowth, TaskGrowth, TypeGrowth};
use runtimes::{Frame, Holder, Kept, Language, RootCount, TaskGroup};

const MIB: f64 = 1_048_576.0;

fn rise(level: f64, grown: f64) -> Rise {
    Rise {
        level,
        grown,
        per_hour: 60.0 * grown,
        is_clear: true,
        values: 15,
    }
}

fn of_type(name: &str, objects: f64, mib: f64) -> TypeGrowth {
    TypeGrowth {
        name: name.to_owned(),
        objects: rise(2.0 * objects, objects),
        bytes: rise(2.0 * mib * MIB, mib * MIB),
    }
}

fn python(types: Vec<TypeGrowth>) -> ManagedGrowth {
    ManagedGrowth {
        runtime: "CPython 3.11.7".to_owned(),
        snapshots: 15,
        over_s: 56.0,
        objects: Some(rise(40.0 * MIB, 9.0 * MIB)),
        types,
        ..ManagedGrowth::default()
    }
}

/// RSS and anonymous mappings grow by so much.
fn case(mib: f64, managed: ManagedGrowth) -> Case {
    let growth = Growth {
        bytes: mib * MIB,
        over_s: 38.0,
        slope_per_hour: mib * MIB * 70.0,
        still: mib > 0.0,
        level: 60.0 * MIB,
        ..Growth::default()
    };
    let mut case = Case {
        observed_s: 60.0,
        snapshots: 60,
        rss: Some(growth),
        owner: Owner::Runtime(Runtime::Python),
        managed: Some(managed),
        ..Case::default()
    };
    case.account.rss_bytes = 60.0 * MIB;
    case.growth.insert(Part::AnonymousMappings, growth);
    case
}

fn held(path: &[&str], users: &[&str]) -> Holder {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Holder {
        first_new: None,
        type_name: "orders.Order".to_owned(),
        path: own(path),
        objects: 190,
        asked: 200,
        users: own(users),
        ..Holder::default()
    }
}

#[test]
fn the_programs_own_type_is_named_with_its_holder() {
    let types = vec![
        of_type("str", 4_000.0, 5.0),
        of_type("orders.Order", 3_400.0, 2.0),
    ];
    let mut managed = python(types);
    managed.holders = vec![held(
        &["module app", ".CACHE (dict)"],
        &["handle (app.py:31)"],
    )];
    let verdict = judge(&case(10.0, managed));
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Managed, 0.9));
    for part in [
        "3400 more orders.Order",
        "held by module app .CACHE (dict)",
        "handle (app.py:31)",
        "+540 MiB/h",
    ] {
        assert!(
            verdict.sentence.contains(part),
            "{part}: {}",
            verdict.sentence
        );
    }
    assert!(
        verdict.next_step.starts_with("read handle (app.py:31)"),
        "{}",
        verdict.next_step
    );
}

#[test]
fn a_lost_reference_is_a_leak() {
    let mut managed = python(vec![of_type("orders.Order", 9_000.0, 9.0)]);
    managed.holders = vec![Holder {
        first_new: None,
        kept: Kept::Native,
        ..held(&["no Python object refers to them (refcount 1)"], &[])
    }];
    assert_eq!(judge(&case(10.0, managed)).cause, Cause::Leak);
}

#[test]
fn growth_that_the_objects_do_not_explain_is_not_pythons() {
    let mut managed = python(Vec::new());
    managed.objects = Some(rise(12.0 * MIB, 0.01 * MIB));
    let verdict = judge(&case(10.0, managed));
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(
        verdict.sentence.contains("native memory"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn objects_that_grow_are_the_cause_before_rss_takes_its_next_step() {
    let mut case = case(0.0, python(vec![of_type("orders.Order", 3_400.0, 2.0)]));
    let verdict = judge(&case);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Managed, 0.5));
    for words in ["3400 more orders.Order", "RSS follows in steps"] {
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
    }
    assert!(
        !verdict.next_step.contains("nothing to do"),
        "{}",
        verdict.next_step
    );
    case.managed = Some(python(vec![of_type("orders.Order", 34.0, 0.02)]));
    assert!(
        !judge(&case).sentence.contains("orders.Order"),
        "too little to speak of"
    );
}

#[test]
fn arrays_that_own_native_memory_are_named() {
    let mut managed = python(vec![of_type("numpy.ndarray", 1_000.0, 0.1)]);
    managed.objects = Some(rise(12.0 * MIB, 0.1 * MIB));
    let verdict = judge(&case(100.0, managed));
    assert_eq!(verdict.cause, Cause::Blind);
    assert!(
        verdict.sentence.contains("1000 more numpy.ndarray"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn one_type_in_place_of_another_is_no_growth() {
    let mut managed = python(vec![of_type("orders.Order", 9_000.0, 9.0)]);
    managed.objects = Some(Rise {
        is_clear: false,
        ..rise(40.0 * MIB, 0.5 * MIB)
    });
    assert_eq!(judge(&case(0.0, managed)).cause, Cause::Flat);
}

#[test]
fn of_two_values_nothing_is_concluded() {
    let mut managed = python(vec![of_type("orders.Order", 9_000.0, 9.0)]);
    managed.types[0].bytes.values = 2;
    assert!(judge(&case(10.0, managed.clone())).undecided);
    let flat = judge(&case(0.0, managed));
    assert!(!flat.sentence.contains("orders.Order"), "{}", flat.sentence);
}

#[test]
fn of_go_without_a_profile_the_variable_that_holds_what_grows_is_named() {
    let root = |name: &str, mib: f64| RootGrowth {
        root: RootCount {
            name: name.to_owned(),
            type_name: Some("map[string]*main.Profile".to_owned()),
            ..RootCount::default()
        },
        objects: rise(9_000.0, 4_000.0),
        bytes: rise(2.0 * mib * MIB, mib * MIB),
    };
    let managed = ManagedGrowth {
        runtime: "Go 1.26.8".to_owned(),
        language: Language::Go,
        snapshots: 15,
        roots: vec![root("runtime.mheap_", 9.0), root("main.profiles", 8.0)],
        ..ManagedGrowth::default()
    };
    let mut case = case(10.0, managed);
    case.owner = Owner::Runtime(Runtime::Go);
    let verdict = judge(&case);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Managed, 0.9));
    let named = "held by main.profiles (map[string]*main.Profile) grow most, by 8.00 MiB";
    assert!(verdict.sentence.contains(named), "{}", verdict.sentence);
}

fn java(committed_grown: f64, objects_mib: f64) -> ManagedGrowth {
    let part = |name: &str, mib: f64| PartGrowth {
        name: name.to_owned(),
        bytes: rise(2.0 * mib * MIB, mib * MIB),
    };
    ManagedGrowth {
        language: Language::Java,
        committed: Some(Rise {
            is_clear: committed_grown > 0.0,
            ..rise(64.0 * MIB, committed_grown * MIB)
        }),
        parts: vec![
            part("metaspace used", 6.0),
            part("metaspace of rules.Loader", 5.0),
        ],
        types: vec![
            of_type("rules.Rule", 4_000.0, objects_mib),
            of_type("java.lang.Class", 2_000.0, 0.5),
        ],
        objects: Some(rise(20.0 * MIB, objects_mib * MIB)),
        ..python(Vec::new())
    }
}

#[test]
fn class_metadata_comes_first_where_the_heap_keeps_its_size() {
    let mut managed = java(0.0, 9.0);
    managed.holders = vec![Holder {
        first_new: None,
        type_name: "java.lang.Class".to_owned(),
        makers: vec!["App.apply (App.java:11)".to_owned()],
        ..held(&["static rules.Engine.CACHE (HashMap)", "[…] (Class)"], &[])
    }];
    let verdict = judge(&case(15.0, managed));
    assert_eq!(verdict.cause, Cause::Managed);
    assert_eq!(
        verdict.sentence,
        "the JVM's class metadata (metaspace) of the classes of rules.Loader grows by 6.00 MiB in 60 s (+360 MiB/h): \
         2000 more classes (4000 now); and Java objects grow by 9.00 MiB in 60 s (+540 MiB/h): 4000 more rules.Rule \
         (8000 now, +9.00 MiB); java.lang.Class objects, which grow with them, held by static \
         rules.Engine.CACHE (HashMap) […] (Class); made by App.apply (App.java:11)"
    );
    assert_eq!(
        verdict.next_step,
        "read App.apply (App.java:11), which makes them: find what should take them out again"
    );
}

#[test]
fn class_metadata_comes_second_where_objects_make_the_heap_larger() {
    let verdict = judge(&case(15.0, java(9.0, 9.0)));
    assert!(
        verdict
            .sentence
            .starts_with("Java objects grow by 9.00 MiB"),
        "{}",
        verdict.sentence
    );
    assert!(
        verdict.sentence.contains("; and the JVM's class metadata"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn room_that_v8_keeps_is_no_growth() {
    let mut managed = ManagedGrowth {
        language: Language::JavaScript,
        objects: None,
        live: Some(rise(18.0 * MIB, 0.1 * MIB)),
        ..python(Vec::new())
    };
    let node = |managed: &ManagedGrowth| {
        let mut case = case(7.6, managed.clone());
        case.owner = Owner::Runtime(Runtime::Node);
        judge(&case)
    };
    let verdict = node(&managed);
    assert_eq!((verdict.cause, verdict.undecided), (Cause::Flat, false));
    assert!(
        verdict.sentence.contains("stays at 18.0 MiB"),
        "{}",
        verdict.sentence
    );
    managed.live = Some(rise(18.0 * MIB, 7.0 * MIB));
    assert_eq!(node(&managed).cause, Cause::Managed);
}

#[test]
fn a_small_part_is_not_named_beside_the_objects() {
    let mut managed = java(0.0, 9.0);
    managed.parts = vec![PartGrowth {
        name: "code cache".to_owned(),
        bytes: rise(3.0 * MIB, 0.04 * MIB),
    }];
    let verdict = judge(&case(9.0, managed));
    assert!(
        verdict
            .sentence
            .starts_with("Java objects grow by 9.00 MiB"),
        "{}",
        verdict.sentence
    );
    assert!(
        !verdict.sentence.contains("code cache"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn a_heap_that_was_not_collected_may_fill_by_a_little() {
    let counted = |collections| ManagedGrowth {
        collections: Some(collections),
        objects: None,
        types: Vec::new(),
        parts: Vec::new(),
        ..java(0.0, 9.0)
    };
    let jvm = |mib: f64, collections| {
        let mut case = case(mib, counted(collections));
        case.owner = Owner::Runtime(Runtime::Jvm);
        judge(&case)
    };
    assert!(jvm(1.0, 0).undecided, "{}", jvm(1.0, 0).sentence);
    // By more, or across collections: no undecided matter.
    for (mib, collections) in [(9.0, 0), (1.0, 3)] {
        let verdict = jvm(mib, collections);
        assert_eq!((verdict.cause, verdict.undecided), (Cause::Managed, false));
    }
}

#[test]
fn references_that_native_code_lost_are_a_leak_though_pointers_remain() {
    let mut managed = python(vec![of_type("orders.Order", 9_000.0, 9.0)]);
    managed.holders = vec![Holder {
        first_new: None,
        kept: Kept::Native,
        ..held(
            &["120 different objects hold them, each a dict"],
            &["fast.so"],
        )
    }];
    let mut case = case(10.0, managed);
    case.sites = vec![super::super::tests::site("Handler::key", 0.0, None)];
    let filling = super::super::sentence::verdict(Cause::Filling, 0.8, "it fills".to_owned(), "");
    let verdict = refined(&case, filling);
    assert_eq!((verdict.cause, verdict.by_objects), (Cause::Leak, true));
    for words in ["each a dict", "allocated at Handler::key"] {
        assert!(verdict.sentence.contains(words), "{}", verdict.sentence);
    }
    assert!(
        verdict.next_step.contains("fast.so"),
        "{}",
        verdict.next_step
    );
}

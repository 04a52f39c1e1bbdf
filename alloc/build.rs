//! Turns the one feature that is on into `cfg(chosen = "...")`, and refuses two.

/// Feature, and the file in `src/chosen` that it stands for.
const CHOICES: [(&str, &str); 7] = [
    ("system", "system"),
    ("jemalloc", "jemalloc"),
    ("mimalloc2", "mimalloc"),
    ("mimalloc3", "mimalloc"),
    ("snmalloc", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("tcmalloc", "tcmalloc"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let files = CHOICES.map(|(_, file)| format!("\"{file}\"")).join(", ");
    println!("cargo::rustc-check-cfg=cfg(chosen, values({files}))");
    let on: Vec<_> = CHOICES
        .iter()
        .filter(|(feature, _)| is_on(feature))
        .collect();
    match on[..] {
        [] => println!("cargo::rustc-cfg=chosen=\"system\""),
        [(_, file)] => println!("cargo::rustc-cfg=chosen=\"{file}\""),
        _ => {
            let names = on
                .iter()
                .map(|(feature, _)| *feature)
                .collect::<Vec<_>>()
                .join(" and ");
            println!(
                "cargo::error=highwater-alloc: the features {names} are on, and a program has one allocator. \
                 Leave one. Features of all dependents add up: `cargo tree -e features -i highwater-alloc` shows \
                 who asks for which."
            );
        }
    }
}

fn is_on(feature: &str) -> bool {
    std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
}

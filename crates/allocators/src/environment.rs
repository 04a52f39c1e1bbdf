//! Checks the names of tunables before a run: allocators fail softly on names they do not know, and
//! an arm with a misspelt tunable would measure its own control.

use std::collections::BTreeMap;

use super::catalogue::catalogue;
use super::recipe::{TunableList, Tunables};
use super::spec::{Spec, nearest};

/// Something to say about one variable of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub severity: Severity,
    pub variable: String,
    /// What is wrong and what would be right, one sentence.
    pub message: String,
}

/// An error makes the arm something else than it says; a warning is worth a line in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// What the machine has of what tunables ask for.
#[derive(Debug, Clone, Copy)]
struct Facts {
    huge_pages_reserved: u64,
}

/// Prefixes that belong to allocators: a variable with one of them and an unknown rest is a slip.
const PREFIXES: &[&str] = &[
    "MALLOC_",
    "MIMALLOC_",
    "TCMALLOC_",
    "SCUDO_",
    "RPMALLOC_",
    "SNMALLOC_",
    "JEMALLOC_",
    "TBB_MALLOC_",
];

/// Checks an arm's environment against what its allocator reads.
///
/// Variables of the program itself pass; so do those of an allocator that cannot be known (a file
/// of
/// the user's own), unless no allocator reads them.
pub fn validate_environment(spec: &Spec, environment: &BTreeMap<String, String>) -> Vec<Advice> {
    let text = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    let facts = Facts {
        huge_pages_reserved: text.trim().parse().unwrap_or(0),
    };
    validate(spec, environment, facts)
}

fn validate(spec: &Spec, environment: &BTreeMap<String, String>, facts: Facts) -> Vec<Advice> {
    let mut advice = Vec::new();
    for (variable, value) in environment {
        let mut say = |severity, message| {
            advice.push(Advice {
                severity,
                variable: variable.clone(),
                message,
            });
        };
        match spec.recipe() {
            Some(recipe) => {
                check_variable(
                    &recipe.tunables,
                    &spec.to_string(),
                    variable,
                    value,
                    &mut say,
                );
            }
            None if is_ours(variable) && readers(variable).is_empty() => {
                say(
                    Severity::Error,
                    format!(
                        "no known allocator reads {variable}{}",
                        hint(variable, &all_variables())
                    ),
                );
            }
            None => {}
        }
        if asks_for_huge_pages(variable, value) && facts.huge_pages_reserved == 0 {
            say(
                Severity::Warning,
                "asks for reserved huge pages, and /proc/sys/vm/nr_hugepages is 0: it will run as \
                 if unset"
                    .to_owned(),
            );
        }
    }
    advice
}

fn check_variable(
    tunables: &Tunables,
    label: &str,
    variable: &str,
    value: &str,
    say: &mut impl FnMut(Severity, String),
) {
    if let Some(list) = tunables.lists.iter().find(|l| l.variable == variable) {
        check_list(list, tunables.numeric, label, value, say);
    } else if tunables.variables.iter().any(|v| v == variable) {
        if tunables.numeric && !is_number(value) {
            say(Severity::Error, not_a_number(label, variable, value));
        }
    } else if is_ours(variable) {
        let readers = readers(variable);
        if readers.is_empty() || readers.iter().any(|r| same_name(r, label)) {
            let known: Vec<&str> = names(tunables).collect();
            say(
                Severity::Error,
                format!("{label} does not read {variable}{}", hint(variable, &known)),
            );
        } else if variable != "GLIBC_TUNABLES" {
            // glibc's loader reads GLIBC_TUNABLES for much else than malloc.
            say(
                Severity::Warning,
                format!(
                    "{label} does not read {variable}; it belongs to {}: it has no effect in this \
                     arm",
                    readers.join(", ")
                ),
            );
        }
    }
}

fn check_list(
    list: &TunableList,
    numeric: bool,
    label: &str,
    value: &str,
    say: &mut impl FnMut(Severity, String),
) {
    let variable = &list.variable;
    for pair in value.split(list.between).filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once(list.assign) else {
            say(
                Severity::Error,
                format!(
                    "{pair:?} in {variable} is not written KEY{}VALUE",
                    list.assign
                ),
            );
            continue;
        };
        if list.compiled_out.iter().any(|k| k == key) {
            say(
                Severity::Error,
                format!("{label} ignores {key}: {}", list.compiled_out_because),
            );
        } else if !list.keys.iter().any(|k| k == key) {
            let known: Vec<&str> = list.keys.iter().map(String::as_str).collect();
            say(
                Severity::Error,
                format!("{label} has no {key} in {variable}{}", hint(key, &known)),
            );
        } else if numeric && !is_number(value) {
            say(Severity::Error, not_a_number(label, key, value));
        }
    }
}

fn not_a_number(label: &str, name: &str, value: &str) -> String {
    format!("{label} reads {name} as a number and ignores {value:?} without a word")
}

/// As glibc reads them: decimal, octal (0...), hexadecimal (0x...), with a sign.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    match digits.strip_prefix("0x") {
        Some(hex) => !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()),
    }
}

fn is_ours(variable: &str) -> bool {
    PREFIXES.iter().any(|p| variable.starts_with(p)) || !readers(variable).is_empty()
}

/// Names of the allocators that read a variable.
fn readers(variable: &str) -> Vec<&'static str> {
    let reading = catalogue()
        .iter()
        .filter(|r| names(&r.tunables).any(|n| n == variable));
    let mut readers: Vec<&str> = reading.map(|r| r.name.as_str()).collect();
    readers.dedup();
    readers
}

fn same_name(reader: &str, label: &str) -> bool {
    label.split('@').next() == Some(reader)
}

fn names(tunables: &Tunables) -> impl Iterator<Item = &str> {
    let lists = tunables.lists.iter().map(|l| l.variable.as_str());
    tunables.variables.iter().map(String::as_str).chain(lists)
}

fn all_variables() -> Vec<&'static str> {
    catalogue()
        .iter()
        .flat_map(|r| names(&r.tunables))
        .collect()
}

fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(near) => format!("; the nearest is {near}"),
        None if known.is_empty() => "; it reads nothing from the environment".to_owned(),
        None => String::new(),
    }
}

fn asks_for_huge_pages(variable: &str, value: &str) -> bool {
    match variable {
        "GLIBC_TUNABLES" => value
            .split(':')
            .any(|pair| pair == "glibc.malloc.hugetlb=2"),
        "MIMALLOC_RESERVE_HUGE_OS_PAGES" => value != "0",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HUGE: Facts = Facts {
        huge_pages_reserved: 0,
    };

    /// The severities and messages for one variable of one arm.
    fn said(spec: &str, variable: &str, value: &str) -> Vec<String> {
        let environment = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        let advice = validate(&Spec::parse(spec).unwrap(), &environment, NO_HUGE);
        advice
            .iter()
            .map(|a| format!("{:?}: {}", a.severity, a.message))
            .collect()
    }

    #[test]
    fn good_environments_pass_in_silence() {
        for (spec, variable, value) in [
            ("glibc", "MALLOC_ARENA_MAX", "2"),
            ("glibc", "MALLOC_TRIM_THRESHOLD_", "131072"),
            (
                "glibc",
                "GLIBC_TUNABLES",
                "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0x0",
            ),
            (
                "jemalloc@5.3.0",
                "MALLOC_CONF",
                "dirty_decay_ms:0,muzzy_decay_ms:0,narenas:1",
            ),
            (
                "jemalloc@5.3.0",
                "MALLOC_CONF",
                "metadata_thp:always,thp:always,background_thread:true",
            ),
            ("mimalloc@2.0.9", "MIMALLOC_PAGE_RESET", "1"),
            ("mimalloc@3.3.2", "MIMALLOC_PURGE_DELAY", "0"),
            ("snmalloc@0.6.0", "GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
            ("glibc", "RUST_LOG", "debug"),
            ("./own.so", "MIMALLOC_VERBOSE", "1"),
        ] {
            assert_eq!(
                said(spec, variable, value),
                [""; 0],
                "{spec} {variable}={value}"
            );
        }
    }

    #[test]
    fn slips_are_named_with_the_nearest() {
        for (spec, variable, value, expected) in [
            (
                "glibc",
                "MALLOC_ARENAS_MAX",
                "2",
                "Error: glibc does not read MALLOC_ARENAS_MAX; the nearest is MALLOC_ARENA_MAX",
            ),
            (
                "glibc",
                "MALLOC_TRIM_THRESHOLD",
                "1",
                "Error: glibc does not read MALLOC_TRIM_THRESHOLD; the nearest is \
                 MALLOC_TRIM_THRESHOLD_",
            ),
            (
                "glibc",
                "MALLOC_ARENA_MAX",
                "two",
                "Error: glibc reads MALLOC_ARENA_MAX as a number and ignores \"two\" without a \
                 word",
            ),
            (
                "glibc",
                "GLIBC_TUNABLES",
                "glibc.malloc.tcache_cuont=0",
                "Error: glibc has no glibc.malloc.tcache_cuont in GLIBC_TUNABLES; the nearest is \
                 glibc.malloc.tcache_count",
            ),
            (
                "jemalloc@5.3.0",
                "MALLOC_CONF",
                "dirty_decay:0",
                "Error: jemalloc@5.3.0 has no dirty_decay in MALLOC_CONF; the nearest is \
                 dirty_decay_ms",
            ),
            (
                "jemalloc@5.3.0",
                "MALLOC_CONF",
                "narenas=1",
                "Error: \"narenas=1\" in MALLOC_CONF is not written KEY:VALUE",
            ),
            (
                "mimalloc@2.0.9",
                "MIMALLOC_PURGE_DELAY",
                "0",
                "Error: mimalloc@2.0.9 does not read MIMALLOC_PURGE_DELAY; the nearest is \
                 MIMALLOC_RESET_DELAY",
            ),
            (
                "./own.so",
                "MIMALLOC_VERBOS",
                "1",
                "Error: no known allocator reads MIMALLOC_VERBOS; the nearest is MIMALLOC_VERBOSE",
            ),
        ] {
            assert_eq!(said(spec, variable, value), [expected]);
        }
    }

    #[test]
    fn a_tunable_of_another_allocator_is_a_warning() {
        let said = said("mimalloc@2.0.9", "MALLOC_ARENA_MAX", "1");
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("Warning: mimalloc@2.0.9 does not read MALLOC_ARENA_MAX"),
            "{said:?}"
        );
    }

    #[test]
    fn huge_pages_are_flagged_where_none_are_reserved() {
        let spec = Spec::parse("glibc").unwrap();
        let environment = BTreeMap::from([(
            "GLIBC_TUNABLES".to_owned(),
            "glibc.malloc.hugetlb=2".to_owned(),
        )]);
        let flagged = validate(&spec, &environment, NO_HUGE);
        assert_eq!(flagged.len(), 1);
        assert_eq!(flagged[0].severity, Severity::Warning);
        assert!(
            validate(
                &spec,
                &environment,
                Facts {
                    huge_pages_reserved: 8
                }
            )
            .is_empty()
        );
    }
}

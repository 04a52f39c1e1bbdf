//! SPDX licence expressions, and the slash that older crates write for OR.

/// Whether a choice of allowed licences satisfies the expression; `None` when it is none.
pub fn holds(text: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let spaced = spaced.replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let found = any(&mut rest, allowed)?;
    rest.is_empty().then_some(found)
}

fn any(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut found = all(rest, allowed)?;
    while take(rest, "OR") {
        found |= all(rest, allowed)?;
    }
    Some(found)
}

fn all(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut found = one(rest, allowed)?;
    while take(rest, "AND") {
        found &= one(rest, allowed)?;
    }
    Some(found)
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    if take(rest, "(") {
        let found = any(rest, allowed)?;
        return take(rest, ")").then_some(found);
    }
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    if !take(rest, "WITH") {
        return (!matches!(*first, "OR" | "AND" | ")")).then(|| allowed(first));
    }
    let (exception, behind) = rest.split_first()?;
    *rest = behind;
    Some(allowed(&format!("{first} WITH {exception}")))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let is_next = rest.first() == Some(&word);
    *rest = if is_next { &rest[1..] } else { rest };
    is_next
}

#[test]
fn expressions() {
    let allowed = |id: &str| matches!(id, "MIT" | "ISC" | "Apache-2.0");
    for (text, expected) in [
        ("MIT", Some(true)),
        ("GPL-3.0-only", Some(false)),
        ("GPL-2.0-only OR MIT", Some(true)),
        ("Unlicense/MIT", Some(true)),
        ("Apache-2.0 AND ISC", Some(true)),
        ("MIT AND BSD-3-Clause", Some(false)),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(false)),
        ("GPL-3.0-only OR MIT AND ISC", Some(true)),
        ("Apache-2.0 WITH LLVM-exception", Some(false)),
        ("Apache-2.0 WITH LLVM-exception OR MIT", Some(true)),
        ("", None),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT ISC", None),
    ] {
        assert_eq!(holds(text, &allowed), expected, "{text:?}");
    }
}

//! What a user calls an allocator: `mimalloc@2.0.9`, `glibc`, or a path to a library.

use std::fmt;
use std::path::PathBuf;

use super::catalogue::{catalogue, version_key};
use super::recipe::Recipe;

/// An allocator that an arm names.
#[derive(Debug, Clone)]
pub enum Spec {
    /// One of the catalogue.
    Catalogued(&'static Recipe),
    /// A library of the user's own.
    File(PathBuf),
}

/// Why a text names no allocator. Every message says what would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("an allocator's name is empty; write NAME@VERSION, glibc, or a path to a library")]
    Empty,
    #[error("no allocator is called {given:?}{}; known are {known}",
        nearest.as_ref().map(|n| format!("; the nearest is {n}")).unwrap_or_default())]
    UnknownName {
        given: String,
        nearest: Option<String>,
        known: String,
    },
    #[error("{name} needs a version: {offered}")]
    NeedsVersion { name: String, offered: String },
    #[error(
        "{name} is not offered in version {version:?}; the nearest is {nearest}; there are \
         {offered}"
    )]
    UnknownVersion {
        name: String,
        version: String,
        nearest: String,
        offered: String,
    },
    #[error("{name} is what this machine has, in the one version that it has: write {name}")]
    SystemHasNoVersion { name: String },
}

impl Spec {
    /// Understands `NAME@VERSION`, the name of a system allocator, or a path (with a `/` in it).
    /// Touches no file: whether the path exists is found out when it is used.
    ///
    /// # Errors
    /// Names that the catalogue does not have, with the nearest one that it has.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SpecError::Empty);
        }
        if text.contains('/') {
            return Ok(Spec::File(PathBuf::from(text)));
        }
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let versions: Vec<&'static Recipe> =
            catalogue().iter().filter(|r| r.name == name).collect();
        if versions.is_empty() {
            return Err(unknown_name(name, version));
        }
        find_version(name, version, &versions).map(Spec::Catalogued)
    }

    /// The catalogue's entry, if it is one.
    pub fn recipe(&self) -> Option<&'static Recipe> {
        match self {
            Spec::Catalogued(recipe) => Some(recipe),
            Spec::File(_) => None,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Catalogued(recipe) => f.write_str(&recipe.label()),
            Spec::File(path) => write!(f, "{}", path.display()),
        }
    }
}

fn find_version(
    name: &str,
    version: Option<&str>,
    versions: &[&'static Recipe],
) -> Result<&'static Recipe, SpecError> {
    let system = versions.iter().find(|r| r.is_system());
    let name = name.to_owned();
    match (version, system) {
        (None, Some(recipe)) => Ok(recipe),
        (None, None) => Err(SpecError::NeedsVersion {
            name,
            offered: offered(versions),
        }),
        (Some(_), Some(_)) if versions.len() == 1 => Err(SpecError::SystemHasNoVersion { name }),
        (Some(version), _) => {
            let found = versions
                .iter()
                .find(|r| r.version == version && !r.is_system());
            found.copied().ok_or_else(|| SpecError::UnknownVersion {
                name,
                version: version.to_owned(),
                nearest: nearest_version(version, versions),
                offered: offered(versions),
            })
        }
    }
}

fn offered(versions: &[&Recipe]) -> String {
    versions
        .iter()
        .map(|r| r.label())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Near in numbers first (2.1.9 is nearer to 2.1.7 than to 2.0.9), then near as text.
fn nearest_version(given: &str, versions: &[&Recipe]) -> String {
    let wanted = version_key(given).0;
    let distance = |recipe: &&&Recipe| {
        let has = version_key(&recipe.version).0;
        let length = wanted.len().max(has.len());
        let at = |v: &[u64], i: usize| v.get(i).copied().unwrap_or(0);
        let steps: Vec<u64> = (0..length)
            .map(|i| at(&wanted, i).abs_diff(at(&has, i)))
            .collect();
        (steps, strsim::levenshtein(given, &recipe.version))
    };
    let best = versions
        .iter()
        .filter(|r| !r.is_system())
        .min_by_key(distance);
    best.map(|r| r.label()).unwrap_or_default()
}

fn unknown_name(name: &str, version: Option<&str>) -> SpecError {
    let mut known: Vec<&str> = catalogue().iter().map(|r| r.name.as_str()).collect();
    known.dedup();
    let nearest = nearest(name, known.iter().copied()).map(|near| {
        let exact = version.and_then(|v| {
            catalogue()
                .iter()
                .find(|r| r.name == near && r.version == v)
        });
        exact.map_or_else(|| near.to_owned(), Recipe::label)
    });
    SpecError::UnknownName {
        given: name.to_owned(),
        nearest,
        known: format!(
            "{}, and any library by its path (./lib.so)",
            known.join(", ")
        ),
    }
}

/// The known word that a mistyped one most likely meant; `None` when nothing is near.
pub(super) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // 0.75 lets two slips in a word of eight letters pass and keeps `foo` from meaning `scudo`.
    const ALIKE: f64 = 0.75;
    known
        .map(|word| (strsim::jaro_winkler(given, word), word))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Spec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn good_names_are_understood() {
        for (text, shown) in [
            ("mimalloc@2.0.9", "mimalloc@2.0.9"),
            (" glibc ", "glibc"),
            ("/usr/lib/x.so", "/usr/lib/x.so"),
            ("./x.so", "./x.so"),
        ] {
            assert_eq!(Spec::parse(text).unwrap().to_string(), shown);
        }
        assert!(Spec::parse("./x.so").unwrap().recipe().is_none());
    }

    #[test]
    fn unknown_names_offer_the_nearest() {
        assert!(error("").contains("is empty"));
        assert!(error("mimaloc").starts_with(
            "no allocator is called \"mimaloc\"; the nearest is mimalloc; known are "
        ));
        assert!(error("jemaloc@5.3.0").contains("; the nearest is jemalloc@5.3.0;"));
        assert!(error("xyzzy").starts_with("no allocator is called \"xyzzy\"; known are "));
    }

    #[test]
    fn unknown_versions_offer_the_nearest_and_all() {
        let said = error("mimalloc@2.1.9");
        assert!(
            said.starts_with(
                "mimalloc is not offered in version \"2.1.9\"; the nearest is \
            mimalloc@2.1.7; there are "
            ),
            "{said}"
        );
        assert!(
            said.contains("mimalloc@2.0.9, ") && said.contains("mimalloc@3.3.2"),
            "{said}"
        );
        assert!(error("jemalloc").starts_with("jemalloc needs a version: jemalloc@"));
        assert!(error("mimalloc@").contains("version \"\""));
    }
}

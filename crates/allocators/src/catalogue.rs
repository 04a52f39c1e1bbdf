//! The recipes that are embedded in this binary.

use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

use super::recipe::{Recipe, Source};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/allocators.rs"));
}

static CATALOGUE: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    let mut recipes: Vec<Recipe> = embedded::RECIPES
        .iter()
        // A bad recipe is our bug, and a test reads them all.
        .map(|(file, text)| parse_recipe(file, text).unwrap_or_else(|e| panic!("{file}: {e:#}")))
        .collect();
    recipes.sort_by_key(|r| (r.name.clone(), version_key(&r.version)));
    recipes
});

/// Every allocator this binary can add, by name, then version (2.0.9 before 2.0.10).
pub fn catalogue() -> &'static [Recipe] {
    &CATALOGUE
}

/// Reads one recipe file and joins to it the lock and the files that it names.
fn parse_recipe(file: &str, text: &str) -> Result<Recipe> {
    let mut recipe: Recipe = toml::from_str(text)?;
    let expected = format!("{}@{}.toml", recipe.name, recipe.version);
    if file != expected {
        bail!("a recipe's file is called after its name and version: {expected}");
    }
    for route in &mut recipe.routes {
        if let Source::Cargo(source) = &mut route.source {
            source.lock_text = find(embedded::LOCKS, &format!("{}.lock", source.lock))?;
        }
        for own in route.build.own_files_mut() {
            own.text = find(embedded::FILES, &own.file)?;
        }
    }
    Ok(recipe)
}

fn find(list: &[(&str, &str)], name: &str) -> Result<String> {
    let found = list.iter().find(|(file, _)| *file == name);
    Ok(found
        .with_context(|| format!("names {name}, which is not there"))?
        .1
        .to_owned())
}

/// Orders versions by their numbers, then by what follows them (`2.0.9` before `2.0.9-secure`).
pub(super) fn version_key(version: &str) -> (Vec<u64>, String) {
    let numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok());
    (numbers.collect(), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Route;

    #[test]
    fn every_recipe_parses_and_has_no_faults() {
        assert_eq!(catalogue().len(), embedded::RECIPES.len());
        for recipe in catalogue() {
            let faults = recipe.faults();
            assert!(faults.is_empty(), "{}: {faults:?}", recipe.label());
        }
    }

    #[test]
    fn every_lock_holds_the_checksum_of_its_recipe() {
        for recipe in catalogue() {
            for route in &recipe.routes {
                let Source::Cargo(source) = &route.source else {
                    continue;
                };
                let locked = super::super::source::cargo::locked_checksum(
                    &source.lock_text,
                    &source.name,
                    &source.version,
                );
                assert_eq!(
                    locked.as_deref(),
                    Some(&*source.sha256),
                    "{}",
                    recipe.label()
                );
            }
        }
    }

    #[test]
    fn no_embedded_lock_or_file_is_left_over() {
        let routes = || catalogue().iter().flat_map(|r| &r.routes);
        for (lock, _) in embedded::LOCKS {
            let named =
                |s: &Source| matches!(s, Source::Cargo(c) if format!("{}.lock", c.lock) == *lock);
            assert!(routes().any(|r| named(&r.source)), "no recipe names {lock}");
        }
        for (file, _) in embedded::FILES {
            let named = |r: &Route| r.build.own_files().iter().any(|f| f.file == *file);
            assert!(routes().any(named), "no recipe names {file}");
        }
    }

    #[test]
    fn a_file_under_another_name_is_refused() {
        let (file, text) = embedded::RECIPES[0];
        let error = parse_recipe("other@1.toml", text).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
    }

    #[test]
    fn versions_order_by_number() {
        let mut versions = ["2.0.10", "2.0.9-secure", "2.0.9", "2.0"];
        versions.sort_by_key(|v| version_key(v));
        assert_eq!(versions, ["2.0", "2.0.9", "2.0.9-secure", "2.0.10"]);
    }
}

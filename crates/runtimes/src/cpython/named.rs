//! What has a name on the path to an object, and where the paths to objects of a type part: there they are added.

use std::collections::HashMap;

/// The last thing on a path that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Named {
    /// A variable of a module; with the address of the module's dict.
    Global(u64, String),
    /// Of an instance or a class; with the address of the class.
    Attribute(u64, String),
    /// A function: its code.
    Function(u64),
}

/// Where a path leads through an item of a container: the container, and the last name before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    pub container: u32,
    pub named: Option<Named>,
}

/// What has a name where paths that read the same part: at the last container that half of them have in common. Behind
/// it each has containers of its own, into which nothing more comes.
pub fn parted_at(paths: &[Vec<Fork>]) -> Option<Named> {
    let deepest = paths.iter().map(Vec::len).max()?;
    (0..deepest).rev().find_map(|level| {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for fork in paths.iter().filter_map(|forks| forks.get(level)) {
            *counts.entry(fork.container).or_default() += 1;
        }
        let (container, count) = counts
            .into_iter()
            .max_by_key(|(container, count)| (*count, *container))?;
        let is_common = |fork: &&Fork| fork.container == container;
        let forks = paths.iter().filter_map(|forks| forks.get(level));
        let named = forks.filter(is_common).find_map(|fork| fork.named.clone());
        named.filter(|_| 2 * count >= paths.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_part_at_the_last_container_that_they_share() {
        let global = |name: &str| Some(Named::Global(1, name.to_owned()));
        let fork = |container, name| Fork {
            container,
            named: global(name),
        };
        // Each logger has a list of filters of its own.
        let own: Vec<Vec<Fork>> = (0..10)
            .map(|number| vec![fork(5, "loggers"), fork(100 + number, "filters")])
            .collect();
        assert_eq!(parted_at(&own), global("loggers"));
        let shared = vec![vec![fork(5, "shops"), fork(6, "orders")]; 10];
        assert_eq!(parted_at(&shared), global("orders"));
        assert_eq!(parted_at(&[Vec::new()]), None);
    }
}

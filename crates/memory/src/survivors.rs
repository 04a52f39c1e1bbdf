//! What a sentence about fragmentation adds.

use std::collections::BTreeMap;

use heap::probe::ProbeSnapshot;

/// Which blocks keep pages from being free: the commonest sizes among live ones, and who allocated.
pub fn survivors(probe: &ProbeSnapshot) -> Option<String> {
    let small = probe
        .blocks
        .iter()
        .filter(|block| block.usable_bytes < 4096);
    let mut classes: BTreeMap<u64, f64> = BTreeMap::new();
    let mut roles: BTreeMap<u16, f64> = BTreeMap::new();
    let mut all = 0.0;
    for block in small {
        *classes
            .entry(block.usable_bytes.next_power_of_two())
            .or_default() += block.weight;
        *roles.entry(block.role).or_default() += block.weight;
        all += block.weight;
    }
    let most = |of: f64| of > 0.3 * all && all > 0.0;
    let class = classes
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|c| most(c.1))?;
    let role = roles
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|role| most(role.1));
    let name = role
        .and_then(|(role, _)| probe.roles.get(&role))
        .filter(|name| !name.is_empty());
    let who = name.map_or_else(String::new, |name| {
        format!(", allocated by threads like {name}")
    });
    let upper = class.0;
    Some(format!(
        "its live blocks are mostly of {} to {upper} bytes{who}",
        upper / 2 + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::probe::Block;

    fn block(usable_bytes: u64, role: u16) -> Block {
        Block {
            address: 0,
            requested_bytes: usable_bytes,
            usable_bytes,
            weight: 1.0,
            time_ns: 0,
            stack: 0,
            role,
        }
    }

    #[test]
    fn the_commonest_size_and_who_allocated_are_named() {
        let mut probe = ProbeSnapshot::default();
        assert_eq!(survivors(&probe), None, "nothing lives");
        probe.blocks = vec![
            block(100, 1),
            block(120, 1),
            block(90, 1),
            block(3_000, 2),
            block(9_000, 2),
        ];
        probe.roles = [(1, "main".to_owned()), (2, "worker".to_owned())].into();
        let words = survivors(&probe).unwrap();
        assert_eq!(
            words,
            "its live blocks are mostly of 65 to 128 bytes, allocated by threads like main"
        );
        probe.roles.clear();
        assert!(survivors(&probe).unwrap().ends_with("128 bytes"));
    }
}

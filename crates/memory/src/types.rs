//! Which classes of objects grow in glibc's heap.

use std::collections::BTreeMap;

use super::growth::growth;
use super::history::History;
use heap::types::Objects;

/// Tables that are judged and whose class is asked for: those that rose by most from the first walk to the last.
const JUDGED_MAX: usize = 64;
/// A rise below so many scatters is none.
const NOISES: f64 = 3.0;

/// The objects of one class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Class {
    pub name: String,
    pub count: u64,
    /// With the headers of their blocks, without what they own.
    pub bytes: u64,
    /// Over the window that is judged.
    pub grown_count: f64,
    pub grown_bytes: f64,
}

impl History {
    /// The classes whose objects become more and still do, those first that grew by most bytes. `name`: of the class
    /// that has a table of virtual functions there.
    pub fn growing_classes(&self, name: impl Fn(u64) -> Option<String>) -> Vec<Class> {
        let complete: Vec<(f64, &BTreeMap<u64, Objects>)> = self
            .moments
            .iter()
            .filter_map(|moment| Some((moment.at_s, moment.objects.as_ref()?)))
            .collect();
        let Some((_, last)) = complete.last() else {
            return Vec::new();
        };
        let grown = |table: u64, of: fn(&Objects) -> u64| {
            let value = |objects: &BTreeMap<u64, Objects>| objects.get(&table).map_or(0, of) as f64;
            let points: Vec<(f64, f64)> = complete
                .iter()
                .map(|(at, objects)| (*at, value(objects)))
                .collect();
            growth(&points).filter(|growth| growth.still && growth.bytes > NOISES * growth.noise)
        };
        let first = complete[0].1;
        let before = |table: &u64| first.get(table).map_or(0, |objects| objects.bytes);
        let rise =
            |(table, objects): &(&u64, &Objects)| objects.bytes.saturating_sub(before(table));
        let mut tables: Vec<(&u64, &Objects)> = last.iter().filter(|of| rise(of) > 0).collect();
        tables.sort_by_key(|of| std::cmp::Reverse(rise(of)));
        let rising = tables
            .into_iter()
            .take(JUDGED_MAX)
            .filter_map(|(table, _)| {
                let count = grown(*table, |objects| objects.count)?;
                let bytes = grown(*table, |objects| objects.bytes)?;
                Some((*table, count.bytes, bytes.bytes))
            });
        let mut classes: BTreeMap<String, Class> = BTreeMap::new();
        for (table, grown_count, grown_bytes) in rising {
            let Some(name) = name(table) else { continue };
            let objects = last.get(&table).copied().unwrap_or_default();
            let class = classes.entry(name.clone()).or_insert_with(|| Class {
                name,
                ..Class::default()
            });
            class.count += objects.count;
            class.bytes += objects.bytes;
            class.grown_count += grown_count;
            class.grown_bytes += grown_bytes;
        }
        let mut classes: Vec<Class> = classes.into_values().collect();
        classes.sort_by(|a, b| b.grown_bytes.total_cmp(&a.grown_bytes));
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::HeapSnapshot;
    use heap::glibc::Walk;
    use heap::types::Census;

    #[test]
    fn what_grows_is_told_by_class_and_a_torn_walk_tells_nothing() {
        let mut history = History::default();
        for second in 0..40u64 {
            let objects = |count: u64| Objects {
                count,
                bytes: 32 * count,
            };
            let complete = second % 7 != 3;
            let mut types = Census::default();
            let counts = [
                (0x10, 100 * second),
                (0x20, 50 * second),
                (0x30, 900),
                (0x40, 10 * second),
            ];
            for (table, count) in counts {
                let seen = if complete { count } else { count / 3 };
                types.by_table.insert(table, objects(seen));
            }
            let snapshot = HeapSnapshot {
                walk: Some(Walk {
                    complete,
                    ..Walk::default()
                }),
                types,
                ..HeapSnapshot::default()
            };
            history.add(second as f64, &snapshot);
        }
        let name = |table: u64| match table {
            0x10 | 0x40 => Some("Order".to_owned()),
            0x20 => Some("LineItem".to_owned()),
            _ => None,
        };
        let classes = history.growing_classes(name);
        let told: Vec<(&str, u64)> = classes
            .iter()
            .map(|class| (&class.name[..], class.count))
            .collect();
        assert_eq!(told, [("Order", 110 * 39), ("LineItem", 50 * 39)]);
        assert!(
            (classes[1].grown_count - 50.0 * 25.0).abs() < 200.0,
            "{classes:?}"
        );
        assert_eq!(classes[1].grown_bytes, 32.0 * classes[1].grown_count);
    }
}

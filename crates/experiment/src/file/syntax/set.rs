//! Overrides from the command line: `--set duration=1h`, `--set arms.glibc.allocator=...`.

use super::problem::{Fault, Place};
use super::tree::{self, Entry, Node, Table, Value};
use units::wording::{nearest, quoted};

/// Puts one override (`text`, the source number `source`) into the tree. The path is dotted; an arm goes by its
/// name, any other list by position from 0. What is not there yet is created; whether the key exists at all
/// is found out later, when the tree is read.
pub fn apply(root: &mut Table, text: &str, source: usize) -> Result<(), Fault> {
    let whole = Place {
        source,
        start: 0,
        end: text.len(),
    };
    let fault = |message: String| Fault {
        place: whole,
        message,
        help: None,
    };
    let Some((key, value)) = text.split_once('=') else {
        return Err(fault(
            "write key=value, for example --set duration=1h".into(),
        ));
    };
    let Some(path) = tree::parse_key(key) else {
        return Err(fault(format!(
            "{} is not a dotted key such as subject.stop.grace",
            quoted(key)
        )));
    };
    let key_place = Place {
        source,
        start: 0,
        end: key.trim_end().len(),
    };
    let node = typed_value(value, source, key.len() + 1);
    let step = Step { key_place, whole };
    step.put_in_table(root, &path, node)
}

/// A TOML value if it is one, else the bare text: nobody quotes twice on a command line.
fn typed_value(text: &str, source: usize, offset: usize) -> Node {
    let place = Place {
        source,
        start: offset,
        end: offset + text.len(),
    };
    let bare = Some(text.to_owned());
    match tree::parse_value(text, source, offset) {
        Some(node) => Node { bare, ..node },
        None => Node {
            value: Value::Text(text.to_owned()),
            place,
            bare,
        },
    }
}

/// One descent along the path.
struct Step {
    key_place: Place,
    whole: Place,
}

impl Step {
    fn put_in_table(&self, table: &mut Table, path: &[String], node: Node) -> Result<(), Fault> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(());
        };
        let is_new = !table.entries.iter().any(|entry| entry.key == *first);
        // A table of that key would be refused later, with a word about lists that nobody typed.
        if is_new
            && rest
                .first()
                .is_some_and(|name| name.parse::<usize>().is_ok())
        {
            return Err(self.fault(format!("the file has no entry in `{first}` to change")));
        }
        let at = table
            .entries
            .iter()
            .position(|entry| entry.key == *first)
            .unwrap_or_else(|| {
                let place = self.whole;
                let node = Node {
                    value: Value::Table(Table::default()),
                    place,
                    bare: None,
                };
                table.entries.push(Entry {
                    key: first.clone(),
                    key_place: self.key_place,
                    node,
                });
                table.entries.len() - 1
            });
        let entry = &mut table.entries[at];
        if rest.is_empty() {
            entry.key_place = self.key_place;
            entry.node = node;
            return Ok(());
        }
        match &mut entry.node.value {
            Value::Table(inner) => self.put_in_table(inner, rest, node),
            Value::List(items) => self.put_in_list(items, first, rest, node),
            other => Err(self.fault(format!("`{first}` is {}, nothing inside it", other.kind()))),
        }
    }

    fn put_in_list(
        &self,
        items: &mut [Node],
        list: &str,
        path: &[String],
        node: Node,
    ) -> Result<(), Fault> {
        let (name, rest) = (&path[0], &path[1..]);
        let names: Vec<String> = items.iter().filter_map(name_of).collect();
        let found = items
            .iter()
            .position(|item| name_of(item).as_deref() == Some(name));
        let found = found.or_else(|| name.parse().ok().filter(|n| *n < items.len()));
        let Some(found) = found else {
            return Err(self.missing(list, name, &names, items.len()));
        };
        match (&mut items[found].value, rest) {
            (_, []) => items[found] = node,
            (Value::Table(inner), rest) => self.put_in_table(inner, rest, node)?,
            (other, _) => {
                return Err(self.fault(format!("`{list}.{name}` is {}", other.kind())));
            }
        }
        Ok(())
    }

    fn missing(&self, list: &str, name: &str, names: &[String], length: usize) -> Fault {
        let what = format!("there is no {} in `{list}`", quoted(name));
        let known = names.iter().map(String::as_str);
        match nearest(name, known) {
            Some(near) => self.fault(format!("{what}; did you mean `{list}.{near}`?")),
            None if !names.is_empty() => {
                self.fault(format!("{what} (it has: {})", names.join(", ")))
            }
            None => self.fault(format!(
                "{what}, which has {length} entries, counted from 0"
            )),
        }
    }

    fn fault(&self, message: String) -> Fault {
        Fault {
            place: self.key_place,
            message,
            help: None,
        }
    }
}

/// The `name` of a table in a list (an arm).
fn name_of(node: &Node) -> Option<String> {
    let Value::Table(table) = &node.value else {
        return None;
    };
    match &table.get("name")?.node.value {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    }
}

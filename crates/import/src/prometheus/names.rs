//! Labels to short ids: the fewest labels that tell the series apart.

use std::collections::HashSet;

use super::Labels;

/// Labels that people know a process by, first choice first.
const KNOWN: &[&str] = &[
    "process",
    "pod",
    "container",
    "instance",
    "groupname",
    "host",
    "node",
    "job",
    "namespace",
];

/// An id for each series, unique, without the label that says its arm where the others suffice.
pub fn ids(all: &[&Labels], arm_label: Option<&str>) -> Vec<String> {
    let varies = |name: &str| {
        let mut values = all.iter().map(|labels| labels.get(name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let mut names: Vec<&str> = all
        .iter()
        .flat_map(|labels| labels.keys().map(String::as_str))
        .collect::<HashSet<_>>()
        .into_iter()
        .filter(|name| varies(name))
        .collect();
    let rank = |name: &str| KNOWN.iter().position(|k| *k == name).unwrap_or(KNOWN.len());
    let key = |name: &&str| (Some(*name) == arm_label, rank(name), (*name).to_owned());
    names.sort_by_key(key);
    let chosen = choose(all, &names);
    if chosen.is_empty() {
        return all.iter().map(|labels| alone(labels)).collect();
    }
    all.iter().map(|labels| joined(labels, &chosen)).collect()
}

/// One label that tells all apart, else as many as it takes.
fn choose<'a>(all: &[&Labels], names: &[&'a str]) -> Vec<&'a str> {
    let tells = |chosen: &[&str]| {
        let ids: HashSet<String> = all.iter().map(|labels| joined(labels, chosen)).collect();
        ids.len() == all.len()
    };
    if let Some(one) = names.iter().find(|name| tells(&[name])) {
        return vec![one];
    }
    let mut chosen: Vec<&str> = Vec::new();
    for name in names {
        chosen.push(name);
        if tells(&chosen) {
            break;
        }
    }
    chosen
}

fn joined(labels: &Labels, names: &[&str]) -> String {
    let value = |name: &&str| labels.get(*name).map_or("-", String::as_str);
    names.iter().map(value).collect::<Vec<_>>().join("/")
}

/// The only series: by what it is known by, else by its metric.
fn alone(labels: &Labels) -> String {
    let known = KNOWN.iter().find_map(|name| labels.get(*name));
    let known = known.or_else(|| labels.get("__name__"));
    known.cloned().unwrap_or_else(|| "series".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_of(texts: &[&str], arm: Option<&str>) -> Vec<String> {
        let pair = |p: &str| p.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        let all: Vec<Labels> = texts
            .iter()
            .map(|text| text.split(',').filter_map(pair).collect())
            .collect();
        ids(&all.iter().collect::<Vec<_>>(), arm)
    }

    #[test]
    fn as_few_labels_as_tell_them_apart() {
        assert_eq!(
            ids_of(&["job=a,instance=h:1", "job=a,instance=h:2"], None),
            ["h:1", "h:2"]
        );
        assert_eq!(
            ids_of(
                &[
                    "job=a,instance=h:1",
                    "job=b,instance=h:1",
                    "job=b,instance=h:2"
                ],
                None
            ),
            ["h:1/a", "h:1/b", "h:2/b"]
        );
        assert_eq!(ids_of(&["job=a,instance=h:1"], None), ["h:1"]);
        assert_eq!(ids_of(&["__name__=m"], None), ["m"]);
        assert_eq!(ids_of(&[""], None), ["series"]);
    }

    #[test]
    fn the_arm_is_no_part_of_an_id_unless_it_must_be() {
        assert_eq!(
            ids_of(&["v=old,pod=p1", "v=new,pod=p2"], Some("v")),
            ["p1", "p2"]
        );
        assert_eq!(
            ids_of(&["v=old,n=1", "v=new,n=1"], Some("v")),
            ["old", "new"]
        );
    }
}

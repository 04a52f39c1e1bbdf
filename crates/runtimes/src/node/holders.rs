//! What keeps objects alive: shortest paths of references from the roots, in the words of the program.

use std::collections::{HashMap, VecDeque};

use super::code::{Code, REPORTED_MAX, describe, sharing};
use super::graph::{EdgeKind, Graph, Kind};
use super::types::name_of;
use crate::Holder;

/// Objects of one type whose paths are compared; spread over all of them.
const ASKED_MAX: usize = 500;
/// Different paths that are reported for a type.
const PATHS_MAX: usize = 3;
/// Steps that are shown; those next to the object name what holds it.
const STEPS_MAX: usize = 8;
/// A path through a linked list is as long as the list.
const WALK_MAX: usize = 100_000;
/// Of the paths of all objects of one type: some tenths of a second.
const WALKS_MAX: usize = 2_000_000;
/// Objects of a group whose paths are compared node by node.
const EXAMPLES_MAX: usize = 16;
/// Names before the place where those paths part, of which the functions that add there are searched.
const NAMES_MAX: usize = 3;
/// An object with more properties is a dictionary: its keys are data, not names, and are not shown.
const PROPERTIES_MAX: usize = 100;
const NONE: u32 = u32::MAX;

pub fn find(graph: &Graph, code: &Code, types: &[String]) -> Vec<Holder> {
    let paths = Paths::new(graph, code);
    let mut objects: HashMap<&str, Vec<u32>> = types
        .iter()
        .map(|name| (name.as_str(), Vec::new()))
        .collect();
    for node in 0..graph.len() {
        if let Some(of_type) = objects.get_mut(name_of(graph, node).as_str()) {
            of_type.push(node);
        }
    }
    let of_type =
        |name: &String| paths.holders(name, objects.get(name.as_str()).map_or(&[], Vec::as_slice));
    types.iter().flat_map(of_type).collect()
}

/// Where a path begins for a reader: at the variable that the last container on it belongs to. What leads to that
/// variable, timers and closures, is only how the search came there first.
fn anchor(path: &[String]) -> usize {
    let container = path.iter().rposition(|step| step.starts_with("[…]"));
    let before = &path[..container.unwrap_or(path.len())];
    let variable = before
        .iter()
        .rposition(|step| step.starts_with("variable "));
    let variable = variable.unwrap_or(0);
    // Not where an object of another container has that variable: each session's own list.
    let is_other = |step: &String| step.starts_with("[…]") && !step.contains("(Timer");
    match path[..variable].iter().any(is_other) {
        true => 0,
        false => variable,
    }
}

/// Where the paths of several objects part.
#[derive(Default)]
struct Parting {
    /// The type of the first objects that are not the same for all.
    first_new: Option<String>,
    /// What the program calls the things before them, the nearest first.
    names: Vec<String>,
    /// From the nearest of these things to an object.
    path: Vec<String>,
}

struct Paths<'a> {
    graph: &'a Graph,
    code: &'a Code,
    /// The reference by which each object was reached first, and whose it is.
    reached_by: Vec<u32>,
    reached_from: Vec<u32>,
}

impl<'a> Paths<'a> {
    fn new(graph: &'a Graph, code: &'a Code) -> Paths<'a> {
        let mut paths = Paths {
            graph,
            code,
            reached_by: vec![NONE; graph.len() as usize],
            reached_from: vec![0; graph.len() as usize],
        };
        // Globals first: what they reach is named by the program, what only V8's own roots reach is not.
        let roots = if graph.len() == 0 {
            0..0
        } else {
            graph.edges_of(0)
        };
        let (own, globals): (Vec<u32>, Vec<u32>) =
            roots.partition(|edge| graph.kind(graph.edge(*edge).to) == Kind::Synthetic);
        paths.reach_from(globals);
        paths.reach_from(own);
        paths
    }

    fn reach_from(&mut self, edges: Vec<u32>) {
        let mut queue = VecDeque::new();
        self.reach(0, edges.into_iter(), &mut queue);
        while let Some(node) = queue.pop_front() {
            self.reach(node, self.graph.edges_of(node), &mut queue);
        }
    }

    fn reach(&mut self, from: u32, edges: impl Iterator<Item = u32>, queue: &mut VecDeque<u32>) {
        for number in edges {
            let edge = self.graph.edge(number);
            let by = &mut self.reached_by[edge.to as usize];
            if edge.kind != EdgeKind::Weak && edge.to != 0 && *by == NONE {
                *by = number;
                self.reached_from[edge.to as usize] = from;
                queue.push_back(edge.to);
            }
        }
    }

    fn holders(&self, type_name: &str, objects: &[u32]) -> Vec<Holder> {
        let step = objects.len().div_ceil(ASKED_MAX).max(1);
        let mut groups: HashMap<Vec<String>, Vec<u32>> = HashMap::new();
        let (mut asked, mut walked) = (0, 0);
        for &node in objects.iter().step_by(step) {
            if walked > WALKS_MAX {
                break;
            }
            asked += 1;
            let path = self.path(node, &mut walked);
            if !path.is_empty() {
                groups.entry(path).or_default().push(node);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(a, more), (b, less)| less.len().cmp(&more.len()).then_with(|| a.cmp(b)));
        groups.truncate(PATHS_MAX);
        let holder = |(path, held): (Vec<String>, Vec<u32>)| {
            let parting = self.parting(&held);
            let first_new = parting.first_new.as_deref();
            let makers = self.code.making(self.graph, first_new.unwrap_or(type_name));
            let is_other = makers.is_empty() && first_new.is_some_and(|first| first != type_name);
            // A path that begins behind the first new object, at a variable that each of them has, hides what is
            // filled.
            let shows = |name: &str| path.iter().any(|step| step.contains(&format!("({name})")));
            let path = match first_new.is_none_or(shows) {
                true => path,
                false => parting.path.clone(),
            };
            Holder {
                type_name: type_name.to_owned(),
                path,
                objects: held.len() as u64,
                asked,
                users: self.users(held[0], &parting.names),
                makers: match is_other {
                    true => self.code.making(self.graph, type_name),
                    false => makers,
                },
                first_new: parting.first_new,
                ..Holder::default()
            }
        };
        groups.into_iter().map(holder).collect()
    }

    /// Of objects that are held alike: a container holds all of them, and from there on each has its own path.
    fn parting(&self, objects: &[u32]) -> Parting {
        let step = objects.len().div_ceil(EXAMPLES_MAX).max(1);
        let examples = objects.iter().step_by(step);
        let ways: Vec<Vec<(u32, u32)>> = examples
            .map(|node| {
                let mut way: Vec<(u32, u32)> = self.steps(*node).collect();
                way.reverse();
                way
            })
            .collect();
        let Some(first) = ways.first().filter(|_| ways.len() > 1) else {
            return Parting::default();
        };
        let is_shared = |at: &usize| ways.iter().all(|way| way.get(*at) == first.get(*at));
        let shared = (0..first.len()).take_while(is_shared).count();
        // Of most of them: the first item of a list is on the way to all others.
        let mut types: HashMap<String, usize> = HashMap::new();
        for way in &ways {
            let mut behind = way[shared..]
                .iter()
                .map(|(edge, _)| self.graph.edge(*edge).to);
            if let Some(node) = behind.find(|node| self.is_of_the_program(*node)) {
                *types.entry(name_of(self.graph, node)).or_default() += 1;
            }
        }
        let most = types
            .into_iter()
            .max_by(|(a, more), (b, less)| more.cmp(less).then_with(|| b.cmp(a)));
        let mut names: Vec<String> = Vec::new();
        for (number, owner) in first[..shared].iter().rev() {
            let name = self
                .named(*number, *owner)
                .filter(|name| !names.contains(name));
            names.extend(name);
            if names.len() == NAMES_MAX {
                break;
            }
        }
        let nearest = first[..shared]
            .iter()
            .rposition(|(number, owner)| self.named(*number, *owner).is_some());
        Parting {
            first_new: most.map(|(name, _)| name),
            names,
            path: self.labels(&first[nearest.unwrap_or(shared)..]),
        }
    }

    /// Of a way from the root on; of a long one its beginning and its end.
    fn labels(&self, way: &[(u32, u32)]) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for (number, owner) in way {
            let label = self.label(*number, *owner);
            labels.extend(label.filter(|label| labels.last() != Some(label)));
        }
        if labels.len() > STEPS_MAX {
            let end = labels.len() - STEPS_MAX / 2;
            labels.splice(STEPS_MAX / 2..end, ["…".to_owned()]);
        }
        labels
    }

    fn is_of_the_program(&self, node: u32) -> bool {
        let kinds = [Kind::Object, Kind::Closure, Kind::Native, Kind::String];
        kinds.contains(&self.graph.kind(node)) && !self.graph.name(node).starts_with("system / ")
    }

    /// What the program calls the thing that a reference leads to.
    fn named(&self, number: u32, owner: u32) -> Option<String> {
        let edge = self.graph.edge(number);
        let is_name = match edge.kind {
            EdgeKind::Context => true,
            EdgeKind::Property => owner != 0 && !self.is_dictionary(owner),
            _ => false,
        };
        (is_name && self.is_of_the_program(edge.to)).then(|| self.graph.edge_name(edge).to_owned())
    }

    /// The references that lead to an object, the last one first, each with the object that it belongs to.
    fn steps(&self, node: u32) -> impl Iterator<Item = (u32, u32)> {
        let by = move |node: u32| {
            let edge = self.reached_by[node as usize];
            (edge != NONE).then(|| (edge, self.reached_from[node as usize]))
        };
        std::iter::successors(by(node), move |(_, from)| by(*from)).take(WALK_MAX)
    }

    /// From the root; empty for an object that nothing holds.
    fn path(&self, node: u32, walked: &mut usize) -> Vec<String> {
        let mut path: Vec<String> = Vec::new();
        let mut last = None;
        for (number, owner) in self.steps(node) {
            *walked += 1;
            // A list links the same way over and over.
            let sort = self.graph.sort_of(number, owner);
            if last.replace(sort) == Some(sort) {
                continue;
            }
            let label = self.label(number, owner);
            path.extend(label.filter(|label| path.last() != Some(label)));
            if path.len() == STEPS_MAX {
                break;
            }
        }
        path.reverse();
        path.drain(..anchor(&path));
        path
    }

    /// `None` for V8's own parts between two objects of the program.
    fn label(&self, number: u32, owner: u32) -> Option<String> {
        let edge = self.graph.edge(number);
        if owner == 0 {
            let is_global = self.graph.kind(edge.to) != Kind::Synthetic;
            return Some(if is_global { "global" } else { "(GC roots)" }.into());
        }
        // V8's contexts hold the variables of closures; the variable's own step names it.
        if !self.is_of_the_program(edge.to) {
            return None;
        }
        let type_name = name_of(self.graph, edge.to);
        let name = self.graph.edge_name(edge);
        Some(match edge.kind {
            EdgeKind::Context => format!("variable {name} ({type_name})"),
            EdgeKind::Property if self.is_dictionary(owner) => format!("[…] ({type_name})"),
            EdgeKind::Property => format!(".{name} ({type_name})"),
            _ => format!("[…] ({type_name})"),
        })
    }

    /// The global object has many properties too, and they are names.
    fn is_dictionary(&self, node: u32) -> bool {
        let edges = self.graph.edges_of(node).map(|edge| self.graph.edge(edge));
        let properties = edges.filter(|edge| edge.kind == EdgeKind::Property).count();
        properties > PROPERTIES_MAX && !self.graph.name(node).starts_with("global")
    }

    /// Functions that add to the nearest of the names to which any adds; where none is known, those that share the last
    /// variable on the path.
    fn users(&self, node: u32, names: &[String]) -> Vec<String> {
        let graph = self.graph;
        let mut variables = self.steps(node);
        let variable = variables.find(|(edge, _)| graph.edge(*edge).kind == EdgeKind::Context);
        let closures =
            variable.map_or_else(Default::default, |(_, context)| sharing(graph, context));
        let adding = names
            .iter()
            .map(|name| self.code.adding_to(graph, name, &closures));
        if let Some(adding) = adding.into_iter().find(|adding| !adding.is_empty()) {
            return adding;
        }
        // Not those that have not run yet, of which no line is known.
        let known = closures
            .iter()
            .filter(|closure| graph.line(**closure).is_some());
        let mut users: Vec<String> = known.map(|closure| describe(graph, *closure)).collect();
        // The program's own before those of Node.js.
        users.sort_by_cached_key(|user| (user.contains("(node:"), user.clone()));
        users.dedup();
        users.truncate(REPORTED_MAX);
        users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_at_the_variable_of_its_container() {
        let of = |words: &[&str]| {
            let path: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            anchor(&path)
        };
        let timers = [
            "variable timers (Object)",
            "[…] (TimersList)",
            "variable ajv (Ajv)",
            "._cache (Map)",
            "[…] (Schema)",
        ];
        assert_eq!(of(&timers), 2);
        let closures = [
            "variable this (Stream)",
            ".error (Array)",
            "[…] ((closure))",
            "variable src (Logger)",
        ];
        assert_eq!(of(&closures), 0);
        let of_each = [
            "variable sessions (Map)",
            "[…] (Session)",
            "variable buf (Array)",
            "[…] (Object)",
        ];
        assert_eq!(of(&of_each), 0);
        assert_eq!(of(&["global", ".cache (Map)", "[…] (Session)"]), 0);
    }
}

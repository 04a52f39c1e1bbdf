//! The functions of a program that add to what holds objects, or make them, by their text.

use std::collections::HashSet;
use std::time::Instant;

use symbols::v8::{Functions, is_nodes_own};

use super::graph::{Graph, Kind};
use super::source::{self, Uses};

/// Of one function. A larger one is a file's own, or generated.
const LETTERS_MAX: usize = 64 << 10;
/// Of all functions: tens of milliseconds.
const ALL_LETTERS_MAX: usize = 16 << 20;
const FUNCTIONS_MAX: usize = 50_000;
/// Functions that are compared because they use one name.
const MATCHES_MAX: usize = 1_000;
/// Reported of each kind.
pub const REPORTED_MAX: usize = 5;

/// What was read of the functions' texts.
#[derive(Debug, Default)]
pub struct Code {
    functions: Vec<Function>,
}

#[derive(Debug)]
struct Function {
    /// One of its closures.
    closure: u32,
    script: u64,
    start: u32,
    end: u32,
    uses: Uses,
}

impl Function {
    /// Whether another one stands in it.
    fn encloses(&self, other: &Function) -> bool {
        let is_within = self.start <= other.start && other.end <= self.end;
        self.script == other.script && is_within && self.end - self.start > other.end - other.start
    }
}

impl Code {
    /// Of the functions that have a closure in the graph, without those of Node.js itself.
    pub fn read(graph: &Graph, functions: &Functions, until: Instant) -> Code {
        let mut code = Code::default();
        let mut letters = 0;
        for (&shared, &closure) in graph.shared.iter().take(FUNCTIONS_MAX) {
            if letters > ALL_LETTERS_MAX || Instant::now() > until {
                break;
            }
            if file_of(graph, closure).is_none_or(|file| is_nodes_own(&file)) {
                continue;
            }
            let Some(text) = functions.text(shared, LETTERS_MAX) else {
                continue;
            };
            letters += text.text.len();
            code.functions.push(Function {
                closure,
                script: text.script,
                start: text.start,
                end: text.end,
                uses: source::uses(&text.text),
            });
        }
        code
    }

    /// Functions that add to what has this name; where none does, those that assign to it. `closures`: those that share
    /// the variable, which come first.
    pub fn adding_to(&self, graph: &Graph, name: &str, closures: &HashSet<u32>) -> Vec<String> {
        let adding = self.innermost(graph, |uses| uses.adds.contains(name));
        let found = match adding.is_empty() {
            true => self.innermost(graph, |uses| uses.sets.contains(name)),
            false => adding,
        };
        self.written(graph, found, closures)
    }

    /// Functions that make objects of a type.
    pub fn making(&self, graph: &Graph, type_name: &str) -> Vec<String> {
        let found = self.innermost(graph, |uses| {
            let is_it = |made: &String| made == type_name || is_buffer(made, type_name);
            uses.makes.iter().any(is_it)
        });
        self.written(graph, found, &HashSet::new())
    }

    /// The functions themselves, not those in which they stand; of those without a name the one with a name around
    /// them.
    fn innermost(&self, graph: &Graph, is_wanted: impl Fn(&Uses) -> bool) -> Vec<&Function> {
        let wanted = self.functions.iter().filter(|of| is_wanted(&of.uses));
        let all: Vec<&Function> = wanted.take(MATCHES_MAX).collect();
        let named = |of: &Function| !graph.name(of.closure).is_empty();
        let with_name = |of: &&'_ Function| {
            let around = all
                .iter()
                .filter(|other| other.encloses(of) && named(other));
            let nearest = around.min_by_key(|other| other.end - other.start);
            nearest.filter(|_| !named(of)).copied()
        };
        let inner = (all.iter()).filter(|of| !all.iter().any(|other| of.encloses(other)));
        inner.map(|of| with_name(of).unwrap_or(*of)).collect()
    }

    /// With file and line: the program's own before those of its packages.
    fn written(
        &self,
        graph: &Graph,
        found: Vec<&Function>,
        closures: &HashSet<u32>,
    ) -> Vec<String> {
        let mut found: Vec<_> = (found.iter())
            .map(|of| {
                let file = file_of(graph, of.closure).unwrap_or_default();
                let is_package = file.contains("/node_modules/");
                (
                    !closures.contains(&of.closure),
                    is_package,
                    of.script,
                    of.start,
                    of.closure,
                )
            })
            .collect();
        found.sort_unstable();
        let mut written: Vec<String> = Vec::new();
        for (.., closure) in found {
            let function = describe(graph, closure);
            if !written.contains(&function) {
                written.push(function);
            }
        }
        written.truncate(REPORTED_MAX);
        written
    }
}

/// A Buffer is a Uint8Array, and is held as one.
fn is_buffer(made: &str, type_name: &str) -> bool {
    made == "Buffer" && matches!(type_name, "FastBuffer" | "Uint8Array" | "ArrayBuffer")
}

fn follow(graph: &Graph, node: u32, names: &[&str]) -> Option<u32> {
    let mut edges = graph.edges_of(node).map(|edge| graph.edge(edge));
    edges
        .find(|edge| names.contains(&graph.edge_name(*edge)))
        .map(|edge| edge.to)
}

fn file_of(graph: &Graph, closure: u32) -> Option<String> {
    let shared = follow(graph, closure, &["shared"])?;
    // Its name changed in V8 12.
    let script = follow(graph, shared, &["script", "script_or_debug_info"])?;
    Some(super::sampling::path_of(graph.name(script)))
}

/// `handleRequest (/srv/app.js:12)`
pub fn describe(graph: &Graph, closure: u32) -> String {
    let name = Some(graph.name(closure))
        .filter(|name| !name.is_empty())
        .unwrap_or("(anonymous)");
    match (file_of(graph, closure), graph.line(closure)) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        _ => name.to_owned(),
    }
}

/// The closures that share a context of variables.
pub fn sharing(graph: &Graph, context: u32) -> HashSet<u32> {
    let uses = |node: &u32| {
        let mut edges = graph.edges_of(*node).map(|edge| graph.edge(edge));
        edges.any(|edge| edge.to == context && graph.edge_name(edge) == "context")
    };
    (0..graph.len())
        .filter(|node| graph.kind(*node) == Kind::Closure)
        .filter(uses)
        .collect()
}

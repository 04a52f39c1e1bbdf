//! Texts and stacks, each kept once under a number: the analysis passes numbers around.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::function_names::dependency;
use super::names::Names;
use crate::event::{StackId, TextId};
pub use crate::stack::{Frame, Stack};
use crate::stack::{is_allocation, is_locking};
use abi::PYTHON_CODE;
use symbols::frame::{JAVA_MODULE, JAVASCRIPT_MODULE, PYTHON_MODULE};
use symbols::hotspot::{in_platform, own_project, project};
use symbols::managed::{ManagedNames, is_managed, without_place};
use symbols::perf_map::Ignored;
use symbols::python::functions::PythonFunctions;
use symbols::python::{evaluates, in_standard_library};
use symbols::v8::is_nodes_own;

/// Different stacks kept; further ones have no names, and are counted.
const STACKS_MAX: usize = 20_000;
const TEXTS_MAX: usize = 20_000;

/// Functions that a runtime runs.
struct Managed {
    names: ManagedNames,
    /// Of the program's own classes of Java, where it is known.
    project: Option<String>,
}

pub struct Places {
    pid: u32,
    shared: Arc<Names>,
    /// What the names cost so far; another thread looked them up.
    pub named_cpu_ns: u64,
    /// Why the process's perf map is not used.
    pub ignored_perf_map: Option<Ignored>,
    /// Where its functions are read: those stand in stacks behind the addresses, with [`PYTHON_CODE`].
    python: Option<PythonFunctions>,
    /// Of a JVM or a V8: their functions stand among the addresses ([`symbols::managed`]).
    managed: Option<Managed>,
    names: HashMap<u64, Vec<Frame>>,
    stacks: Vec<Stack>,
    stack_ids: HashMap<Rc<[u64]>, StackId>,
    /// Stacks without names as yet.
    unnamed: Vec<StackId>,
    /// Those named since [`Places::take_named`].
    named: Vec<StackId>,
    texts: Vec<String>,
    text_ids: HashMap<String, TextId>,
    /// Stacks of which no frame has a name.
    pub unresolved: u64,
    pub refused: u64,
}

impl Places {
    pub fn new(pid: u32) -> Places {
        Places {
            pid,
            shared: Names::shared(),
            named_cpu_ns: 0,
            ignored_perf_map: None,
            python: None,
            managed: None,
            names: HashMap::new(),
            stacks: vec![Stack::default()],
            stack_ids: HashMap::new(),
            unnamed: Vec::new(),
            named: Vec::new(),
            texts: vec![String::new()],
            text_ids: HashMap::new(),
            unresolved: 0,
            refused: 0,
        }
    }

    /// From now on stacks have functions of Python too.
    pub fn reads_python(&mut self) {
        self.python = Some(PythonFunctions::default());
        // What was named before took the interpreter for the program.
        self.names.clear();
    }

    /// From now on stacks have functions of Java or JavaScript too.
    pub fn reads_managed(&mut self) {
        if self.managed.is_none() {
            self.managed = Some(Managed {
                names: ManagedNames::default(),
                project: own_project(self.pid),
            });
            self.names.clear();
        }
    }

    pub fn text(&mut self, words: &str) -> TextId {
        if let Some(id) = self.text_ids.get(words) {
            return *id;
        }
        if self.texts.len() >= TEXTS_MAX {
            return 0;
        }
        let id = self.texts.len() as TextId;
        self.texts.push(words.to_string());
        self.text_ids.insert(words.to_string(), id);
        id
    }

    /// The texts from the `first`-th on, with their numbers.
    pub fn texts_from(&self, first: usize) -> Vec<(TextId, String)> {
        let texts = self.texts.iter().enumerate().skip(first);
        texts
            .map(|(id, words)| (id as TextId, words.clone()))
            .collect()
    }

    /// The stacks that got their names since this was asked last.
    pub fn take_named(&mut self) -> Vec<StackId> {
        std::mem::take(&mut self.named)
    }

    pub fn words(&self, id: TextId) -> &str {
        self.texts.get(id as usize).map_or("", String::as_str)
    }

    pub fn stack_of(&self, id: StackId) -> &Stack {
        self.stacks.get(id as usize).unwrap_or(&self.stacks[0])
    }

    /// The number of a stack, its addresses named at once: later the process may be gone.
    pub fn stack(&mut self, addresses: &[u64]) -> StackId {
        let id = self.stack_unnamed(addresses);
        if let Some(at) = self.unnamed.iter().position(|unnamed| *unnamed == id) {
            self.unnamed.swap_remove(at);
            self.name_stack(id);
        }
        id
    }

    /// As [`Places::stack`], its names later ([`Places::name_one`]): the first of a library take tens of milliseconds.
    pub fn stack_unnamed(&mut self, addresses: &[u64]) -> StackId {
        if addresses.is_empty() {
            return 0;
        }
        // One call of a method is like any other: names have no lines here.
        let addresses: Vec<u64> = addresses.iter().map(|at| without_place(*at)).collect();
        let addresses = addresses.as_slice();
        if let Some(id) = self.stack_ids.get(addresses) {
            return *id;
        }
        if self.stacks.len() >= STACKS_MAX {
            self.refused += 1;
            return 0;
        }
        let id = self.stacks.len() as StackId;
        let addresses: Rc<[u64]> = Rc::from(addresses);
        self.stacks.push(Stack {
            addresses: addresses.clone(),
            ..Stack::default()
        });
        self.stack_ids.insert(addresses, id);
        self.unnamed.push(id);
        id
    }

    /// Names one of the stacks that have none; whether there was one.
    pub fn name_one(&mut self) -> bool {
        let next = self.unnamed.pop();
        if let Some(id) = next {
            self.name_stack(id);
        }
        next.is_some()
    }

    pub fn name_all(&mut self) {
        while self.name_one() {}
    }

    fn name_stack(&mut self, id: StackId) {
        let addresses = self.stacks[id as usize].addresses.clone();
        let native = native(&addresses);
        self.name(native);
        let mut frames: Vec<Frame> = native
            .iter()
            .flat_map(|address| self.names.get(address).cloned().unwrap_or_default())
            .collect();
        let allocator = frames.iter().any(|frame| is_allocation(&frame.name));
        if let Some(python) = &mut self.python {
            let functions = addresses[native.len()..].iter();
            let functions = functions.filter_map(|code| function(python, self.pid, *code));
            let functions: Vec<Frame> = functions.collect();
            let at = frames.iter().position(|frame| evaluates(&frame.name));
            let at = at.unwrap_or(frames.len());
            frames.splice(at..at, functions);
        }
        if frames.iter().all(Frame::is_nameless) {
            self.unresolved += 1;
        }
        self.named.push(id);
        self.stacks[id as usize] = Stack {
            addresses,
            allocator,
            locks: is_locking(&frames),
            frames,
        };
    }

    /// Of code of the program's files.
    pub fn addresses(&self, id: StackId) -> &[u64] {
        native(&self.stack_of(id).addresses)
    }

    /// Where the code of the function at `address` begins, and its bytes, when it is the program's own.
    pub fn own_code(&mut self, address: u64) -> Option<(u64, u64)> {
        self.name(&[address]);
        let whole = self.names.get(&address)?.last()?;
        (whole.is_of_program() && whole.bytes > 0).then_some((whole.start, whole.bytes))
    }

    /// The innermost function of the program's own at `address`, inlined ones too.
    pub fn own_name(&mut self, address: u64) -> Option<String> {
        self.name(&[address]);
        let own = self
            .names
            .get(&address)?
            .iter()
            .find(|frame| frame.is_own());
        own.map(|frame| frame.name.clone())
    }

    /// `called` is the beginning of a function of the program's own, and not of the one that
    /// `inner` is in.
    pub fn is_another_function(&mut self, called: u64, inner: u64) -> bool {
        self.name(&[called, inner]);
        let start = |address| {
            let frames: Option<&Vec<Frame>> = self.names.get(&address);
            frames.and_then(|frames| frames.last())
        };
        let begins =
            start(called).is_some_and(|frame| frame.start == called && frame.is_of_program());
        begins && start(inner).is_none_or(|frame| frame.start != called)
    }

    fn name(&mut self, addresses: &[u64]) {
        let fresh: Vec<u64> = addresses
            .iter()
            .copied()
            .filter(|address| !self.names.contains_key(address))
            .collect();
        if fresh.is_empty() {
            return;
        }
        let (managed, fresh): (Vec<u64>, Vec<u64>) =
            fresh.into_iter().partition(|address| is_managed(*address));
        for address in managed {
            let named = self
                .managed
                .as_mut()
                .and_then(|managed| managed.frame(self.pid, address));
            self.names.insert(address, named.into_iter().collect());
        }
        let answer = self.shared.of(self.pid, &fresh);
        self.named_cpu_ns += answer.cpu_ns;
        self.ignored_perf_map = answer.ignored_perf_map;
        let mut named = answer.frames;
        if self.python.is_none() && self.managed.is_none() {
            let all = named.iter_mut().flatten();
            all.for_each(|frame| frame.interpreter = false);
        }
        self.names.extend(fresh.into_iter().zip(named));
    }
}

impl Managed {
    fn frame(&mut self, pid: u32, address: u64) -> Option<Frame> {
        let found = self.names.at(pid, address)?;
        let name = found.function?;
        let (package, borrowed) = match (found.module == JAVA_MODULE, &found.file) {
            (true, _) => {
                let of = project(&name).filter(|of| self.project.as_deref() != Some(of));
                (of.unwrap_or_default().to_owned(), in_platform(&name))
            }
            (false, Some(file)) => (dependency(file), is_nodes_own(file)),
            // V8's own.
            (false, None) => (String::new(), true),
        };
        // Names of JavaScript say no class and no file.
        let is_javascript = found.module == JAVASCRIPT_MODULE;
        let place = found.file.as_deref().filter(|_| is_javascript && !borrowed);
        let place = place.map(|file| file.rsplit('/').next().unwrap_or(file));
        let name = match (place, found.line) {
            (Some(file), Some(line)) if !name.starts_with(file) => {
                format!("{name} ({file}:{line})")
            }
            _ => name,
        };
        Some(Frame {
            module: found.module,
            // A function is one place, whatever the bytecode.
            start: if is_javascript { address } else { 0 },
            bytes: 0,
            package,
            borrowed,
            interpreter: false,
            name,
        })
    }
}

/// The part of a stack that is of the program's files; functions of Python follow.
fn native(addresses: &[u64]) -> &[u64] {
    let count = addresses.iter().take_while(|at| *at & PYTHON_CODE == 0);
    &addresses[..count.count()]
}

fn function(known: &mut PythonFunctions, pid: u32, code: u64) -> Option<Frame> {
    let found = known.at(pid as i32, code & !PYTHON_CODE)?;
    let file = found.file.unwrap_or_default();
    Some(Frame {
        name: found.function?,
        module: PYTHON_MODULE.to_owned(),
        start: found.offset,
        bytes: 0,
        package: dependency(&file),
        borrowed: in_standard_library(&file),
        interpreter: false,
    })
}

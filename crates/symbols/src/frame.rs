//! One function on a stack.

/// What stands as module of a Python function.
pub const PYTHON_MODULE: &str = "python";

/// What stands as module of a Java method.
pub const JAVA_MODULE: &str = "java";

/// What stands as module of a function of JavaScript.
pub const JAVASCRIPT_MODULE: &str = "javascript";

/// One function on a stack. An address may be several: what was inlined comes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// Demangled. `None` where the file has no symbol for the address.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The mapped file; empty for code without one.
    pub module: String,
    /// Of the address in that file, bytes.
    pub offset: u64,
    /// Its code lies within the next frame's.
    pub inlined: bool,
    /// It left its place on the stack to the frame before (`return malloc(n)`): known from the call in the next one.
    pub left: bool,
}

impl Frame {
    /// A function that a runtime runs: it is in no file of machine code.
    pub fn is_managed(&self) -> bool {
        is_managed(&self.module)
    }
}

/// Whether a frame's module is that of functions which a runtime runs.
pub fn is_managed(module: &str) -> bool {
    [PYTHON_MODULE, JAVA_MODULE, JAVASCRIPT_MODULE].contains(&module)
}

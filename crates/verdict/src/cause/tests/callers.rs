//! Whom the sentence names beside the site.

use super::*;

fn frame(function: Option<&str>, module: &str, file: Option<&str>) -> Frame {
    Frame {
        function: function.map(str::to_owned),
        module: module.to_owned(),
        file: file.map(str::to_owned),
        ..Frame::default()
    }
}

fn sentence(frames: Vec<Frame>) -> String {
    let mut case = case(&[(Part::LiveHeap, 5.0)]);
    let site = site("", 0.0, Some((30, 32)));
    case.sites = vec![Site { frames, ..site }];
    judge(&case).sentence
}

#[test]
fn a_module_without_symbols_is_named_by_its_file() {
    let node = |name: &str| frame(Some(name), "/usr/bin/node", None);
    let addon = || frame(None, "/srv/node_modules/crc32.linux-x64-gnu.node", None);
    let told = sentence(vec![
        node("napi_create_reference"),
        addon(),
        addon(),
        node(
            "v8impl::(anonymous namespace)::FunctionCallbackWrapper::Invoke(v8::FunctionCallbackInfo)",
        ),
        Frame {
            line: Some(12),
            ..frame(Some("checksum"), "javascript", Some("/srv/server.js"))
        },
    ]);
    let expected =
        "at napi_create_reference, called by crc32.linux-x64-gnu.node < checksum (server.js:12):";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn an_interpreter_is_no_caller() {
    let told = sentence(vec![
        frame(None, "/srv/site-packages/_core.so", None),
        frame(None, "/srv/site-packages/_core.so", None),
        frame(
            Some("_PyObject_GenericSetAttrWithDict"),
            "/usr/lib/libpython3.11.so.1.0",
            None,
        ),
    ]);
    assert!(!told.contains("called by"), "{told}");
}

#[test]
fn a_function_of_python_is_named_with_the_line_that_calls() {
    let python = |name: &str, file: &str, line: u32| Frame {
        line: Some(line),
        ..frame(Some(name), "python", Some(file))
    };
    let told = sentence(vec![
        frame(None, "/srv/lib/python3.11/site-packages/_core.so", None),
        frame(Some("keep_row"), "/srv/rows.so", Some("/build/rows.c")),
        frame(
            Some("_PyEval_EvalFrameDefault"),
            "/usr/bin/python3.11",
            None,
        ),
        python("Service.handler", "/srv/service.py", 42),
        python("main", "/srv/service.py", 90),
    ]);
    let expected = "called by keep_row < Service.handler (service.py:42):";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_function_of_a_dependency_is_named_with_the_program_s_own() {
    const CRATES: &str = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
    let of = |name: &str, file: String| frame(Some(name), "/srv/app", Some(&file));
    let told = sentence(vec![
        of(
            "init",
            format!("{CRATES}/crossbeam-epoch-0.9.21/src/atomic.rs"),
        ),
        of(
            "new",
            format!("{CRATES}/crossbeam-epoch-0.9.21/src/atomic.rs"),
        ),
        of(
            "push",
            format!("{CRATES}/metrics-util-0.15.1/src/bucket.rs"),
        ),
        of("record", format!("{CRATES}/metrics-0.21.1/src/handles.rs")),
        of("handle_request", "/srv/app/src/main.rs".to_owned()),
    ]);
    assert!(told.contains("called by push < handle_request:"), "{told}");
}

//! What is wrong is said before anything begins.

use super::*;
use crate::file::parse_experiment;

/// A plan that attaches by these lines of TOML.
fn plan(attach: &str) -> Experiment {
    let text = format!(
        "name = \"x\"\nhypothesis = \"h\"\ncontrol = \"a\"\n[subject]\nkind = \"attach\"\n{attach}\n\
         [[arms]]\nname = \"a\"\n"
    );
    let known = |_: &str| Ok(());
    parse_experiment(
        &text,
        "x.toml",
        std::path::Path::new("/nonexistent"),
        &[],
        &known,
    )
    .unwrap_or_else(|problems| panic!("{problems}"))
}

fn refusal(attach: &str) -> String {
    Attached::new(&plan(&format!("[[subject.attach]]\n{attach}")), "r").unwrap_err()
}

#[test]
fn we_are_found_by_pid_but_never_by_expression() {
    let me = i32::try_from(std::process::id()).unwrap();
    let by_pid = plan(&format!("[[subject.attach]]\narm = \"a\"\npids = [{me}]"));
    assert_eq!(Attached::new(&by_pid, "r").unwrap().slots[0].found.pid, me);
    let own = process::read_executable(me).unwrap();
    let error = refusal(&format!("arm = \"a\"\nexe = '^{}$'", regex::escape(&own)));
    assert!(error.contains("no process matches"), "{error}");
}

#[test]
fn what_is_wrong_is_said() {
    assert!(refusal("arm = \"a\"\npids = [2147483647]").contains("no process 2147483647"));
    assert!(refusal("groups = \"g.csv\"").contains("/nonexistent/g.csv cannot be read"));
    let error = refusal("arm = \"a\"\nenviron = { HIGHWATER_NO_SUCH = \"x*\" }");
    assert!(error.contains("HIGHWATER_NO_SUCH=x*"), "{error}");
    let error = refusal("arm = \"a\"\ncgroup = \"/no/such/*\"");
    assert!(error.contains("cgroup /no/such/*"), "{error}");
}

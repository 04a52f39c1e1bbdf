//! Golden command lines: what is typed, what is said, with which exit code.
//! `TRYCMD=overwrite cargo test --test cli` writes what is said now; read the difference.

#[test]
fn the_command_says_what_it_said() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

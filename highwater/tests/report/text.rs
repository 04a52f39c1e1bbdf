use crate::synthetic::{judged, relay};
use highwater::report::{Extras, Report, text};
#[test]
fn debug_text() {
    let run = relay().run();
    let v = judged::verdict(&run);
    let r = Report::build(&run, &v, Extras::default());
    println!("{}", text::render(&r, 100));
    println!("{}", text::render(&r, 80));
}

//! Functions as a sentence names them.

use memory::brief::brief;
use runtimes::{Frame, is_of_the_standard_library};

/// Neither the runtime's nor the standard library's.
pub fn is_own(frame: &&Frame) -> bool {
    let function = frame.function.as_deref();
    function.is_some_and(|name| !is_of_the_standard_library(name, frame.file.as_deref()))
}

/// "handle (/srv/app.py:31)" without the folder.
pub fn short(user: &str) -> String {
    let Some((name, place)) = user.split_once(" (") else {
        return user.to_owned();
    };
    format!("{name} ({}", place.rsplit('/').next().unwrap_or(place))
}

/// "handle (app.py:31)".
pub fn named(frame: &Frame) -> Option<String> {
    let function = brief(frame.function.as_deref()?);
    let file = frame
        .file
        .as_deref()
        .map(|file| file.rsplit('/').next().unwrap_or(file));
    Some(match (file, frame.line) {
        (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
        _ => function,
    })
}

//! Texts of other tools that are no table yet, made into one: a document of JSON, tables between lines that say the
//! time (`date; ps`, `top -b`), tables with blanks in their cells (`docker stats`), lines of mprof and
//! `free`, readings without a header.
//!
//! A line stays a line, so that an error says where it is in the file; of a document of JSON it says the reading.

mod blocks;
mod document;
mod headless;
mod lines;
mod printed;
mod unnamed;

use std::io::Read;

use super::ImportError;
use super::header::Wanted;
use super::text::{Text, head_of};
use lines::{Translated, Translation};

/// The text, or the table that it means. `wanted` names columns, as for any table.
///
/// # Errors
/// A document that is too large, or broken; a text in which several columns may be the memory, or that needs a unit.
pub fn table_of<'a>(text: Text<'a>, wanted: &Wanted) -> Result<Text<'a>, ImportError> {
    if document::may_be(&text.head) {
        return document::table_of(text, wanted);
    }
    let head = String::from_utf8_lossy(&text.head).into_owned();
    let printed = printed::recognized(&head, wanted)?;
    let found = printed
        .or_else(|| blocks::recognized(&head, wanted))
        .or_else(|| unnamed::recognized(&head, wanted));
    let found = match found {
        Some(found) => Some(found),
        None => headless::recognized(&head, wanted)?,
    };
    match found {
        Some(translation) => translated(text, translation),
        None => Ok(text),
    }
}

fn translated(text: Text<'_>, translation: Translation) -> Result<Text<'_>, ImportError> {
    let lines_added = u64::from(translation.header.is_some());
    let note = translation.note.clone();
    let mut table: Box<dyn Read> = Box::new(Translated::new(text.from(0), translation));
    let head = head_of(&mut table)?;
    let mut text = Text::new(head, table);
    text.lines_added = lines_added;
    text.note = note;
    Ok(text)
}

#[cfg(test)]
mod printed_tests;
#[cfg(test)]
mod tests;

//! Types of global variables, by the program's DWARF.

use std::fs::File;

use super::super::budget::Budget;

/// A type, as far as it is expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    pub name: String,
    pub bytes: u64,
    pub parts: Parts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    None,
    Fields(Vec<Field>),
    /// It points to a struct with these fields, and of this size.
    Target(Vec<Field>, u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub offset: u64,
    pub kind: Type,
}

pub struct Types;

impl Types {
    pub fn read(_file: File, _budget: &mut Budget) -> Option<Types> {
        None
    }

    pub fn of_variable(&self, _address: u64, _expands: bool) -> Option<Type> {
        None
    }
}

//! Roles and kinds of events as the words that stand in the tables: the names serde gives them.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that is one word in a column.
pub(super) struct Word<T>(pub T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(word)) => Ok(word.into()),
            other => Err(rusqlite::Error::ToSqlConversionFailure(
                format!("{other:?}").into(),
            )),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word = serde_json::Value::String(value.as_str()?.to_owned());
        serde_json::from_value(word)
            .map(Word)
            .map_err(FromSqlError::other)
    }
}

/// A list of texts, as JSON in a column.
pub(super) struct Words(pub Vec<String>);

impl ToSql for Words {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl FromSql for Words {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Words)
            .map_err(FromSqlError::other)
    }
}

//! Why a text is no size, duration, rate or percentage: sentences for the person who wrote it.

/// The texts are quoted already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("{0} is not a size; write 512MiB or 2GiB")]
    Size(String),
    #[error("{0} is larger than any machine")]
    TooLarge(String),
    #[error("{0} is not a duration; write 90s, 4m or 1h30m")]
    Duration(String),
    #[error("{text} has no unit; write {value}s, {value}m or {value}h")]
    NoUnit { text: String, value: u64 },
    #[error("{0} is too long or too fine for a duration")]
    DurationRange(String),
    #[error("{0} is not a rate; write 80KiB/s or 290MiB/h")]
    Rate(String),
    #[error("{0} is not a percentage; write 2.5%")]
    Percentage(String),
    /// A unit that resembles a known one: `suggestion` is the whole text with it.
    #[error("{unit} is not a unit of {quantity}; did you mean {suggestion}?")]
    MisspeltUnit {
        unit: String,
        quantity: &'static str,
        suggestion: String,
    },
    /// `known` are the units that there are, with commas.
    #[error("{unit} is not a unit of {quantity} (known: {known})")]
    UnknownUnit {
        unit: String,
        quantity: &'static str,
        known: String,
    },
}

/// For readers whose own errors are sentences.
impl From<ParseError> for String {
    fn from(error: ParseError) -> String {
        error.to_string()
    }
}

//! highwater

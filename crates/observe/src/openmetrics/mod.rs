//! The subject's own numbers: any endpoint that speaks OpenMetrics or Prometheus text.

pub mod exposed;
pub mod fetch;
pub mod histogram;
pub mod parse;
pub mod series;

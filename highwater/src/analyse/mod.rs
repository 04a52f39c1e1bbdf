//! Pure numbers: from recorded samples to series, levels, slopes and shapes. No file, no process,
//! no clock.

pub mod arms;
pub mod cost;
pub mod latency;
pub mod ratio;
pub mod series;

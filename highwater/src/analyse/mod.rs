//! Pure numbers: from recorded samples to series, levels, slopes and shapes. No file, no process, no clock.

pub mod cost;
pub mod bins;
pub mod clean;
pub mod finer;
pub mod fit;
pub mod incarnation;
pub mod mixture;
pub mod noise;
pub mod order;
pub mod period;
pub mod arms;
pub mod latency;
pub mod series;
pub mod shapes;
pub mod student;

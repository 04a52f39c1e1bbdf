//! From recorded samples to series, levels, slopes and shapes. Pure numbers: no file, no process, no clock.
//!
//! In: samples of a run ([`record`]), or columns that `import` read. Out: per replica a series, per arm a slope and a
//! level with their uncertainty, and what shape the curve has. Called by: `verdict`, for `run`, `verdict` and `adopt`.

pub mod arms;
pub mod basis;
pub mod bins;
pub mod clean;
pub mod columns;
pub mod design;
pub mod estimate;
pub mod factorial;
pub mod fit;
pub mod forecast;
pub mod incarnation;
pub mod ladder;
pub mod lanes;
pub mod latency;
pub mod line;
pub mod linear;
pub mod mixture;
pub mod model_search;
pub mod noise;
pub mod order;
pub mod period;
pub mod ratio;
pub mod refine;
pub mod replicas;
pub mod sawtooth;
pub mod series;
pub mod shapes;
pub mod shares;
mod sloped;
pub mod solve;
pub mod square;
pub mod staircase;
pub mod stairs;
pub mod student;
pub mod trace;
pub mod whitened;

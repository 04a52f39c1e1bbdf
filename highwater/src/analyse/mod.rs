//! Pure numbers: from recorded samples to series, levels, slopes and shapes. No file, no process, no clock.

<<<<<<< HEAD
pub mod cost;
=======
pub mod bins;
pub mod clean;
pub mod finer;
pub mod fit;
pub mod incarnation;
pub mod mixture;
pub mod noise;
pub mod order;
pub mod period;
>>>>>>> judge
pub mod series;
pub mod shapes;
pub mod student;

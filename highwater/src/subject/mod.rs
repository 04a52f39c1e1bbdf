//! What runs: the experiment's plan, the arms of a service, its processes from start to end.

pub mod experiment;

//! Small benchmarks of the functions that everything else stands on: `benches/` has them, a file a crate.

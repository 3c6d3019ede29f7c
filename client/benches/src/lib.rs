//! Small benchmarks of the functions on which everything else is built. `benches/` has one file for each subject.

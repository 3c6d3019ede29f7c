//! The figures of a measurement, and their medians and percentiles.

mod machine;
mod measured;
mod recorder;
mod schedule;
mod stats;

pub use machine::Machine;
pub use measured::{Amplification, BlockFigures, Commitment, Measured, Proofs, TimeSplit};
pub use recorder::{BlockTimes, Recorder};
pub use schedule::{SCHEDULED_THREADS, Schedule, Scheduled};
pub use stats::{Percentiles, Spread};

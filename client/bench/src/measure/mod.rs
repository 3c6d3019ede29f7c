//! What is measured, and how figures are summed up.

mod machine;
mod measured;
mod recorder;
mod stats;

pub use machine::Machine;
pub use measured::{Amplification, BlockFigures, Commitment, Measured, TimeSplit};
pub use recorder::{BlockTimes, Recorder};
pub use stats::{Percentiles, Spread};

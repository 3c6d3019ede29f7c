//! What is measured, and how figures are summed up.

mod machine;
mod measured;
mod process;
mod recorder;
mod stats;

pub use machine::Machine;
pub use measured::{Amplification, BlockFigures, Commitment, Measured, TimeSplit};
pub use process::{
    DeviceIo, ProcessorTime, available_bytes, own_rss_bytes, peak_rss_bytes, rss_bytes,
};
pub use recorder::{BlockTimes, Recorder};
pub use stats::{Percentiles, Spread};

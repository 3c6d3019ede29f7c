//! The report of tests that cannot run here.

use std::{
    fmt::Display,
    io::{self, Write},
    thread,
};

/// Prints one line to the standard error stream: which test is skipped, and why.
///
/// The harness hides what a passed test prints, and a skipped test counts as passed. This line bypasses the harness;
/// `.ci/run` counts such lines.
pub fn skipped(reason: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a thread of a test"));
    // If the stream is closed, no reader wants the line.
    _ = io::stderr().write_all(line.as_bytes());
}

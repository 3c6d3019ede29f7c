//! Signals that ask a command to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP of a terminal that goes away.
//!
//! A command that has work to finish or files to remove asks for a flag and looks at it ([`on_interrupt`]). Any other
//! command ends at once: it only reads, or its writes survive a kill at any time. The exit code is 130 either way,
//! except for `devnet` and `engine`: a server leaves no work undone, and users expect 0 when they end one.
//!
//! SIGBUS is no request to stop: the system sends it when a page of a memory-mapped file cannot be read.

use super::exit::{Failure, INTERRUPTED, MACHINE};
use signal_hook::{
    consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    flag, low_level,
};
use std::{
    fs,
    path::Path,
    sync::{
        Arc, LazyLock, Once,
        atomic::{AtomicBool, Ordering},
    },
};

/// The flag of all signals. While it is set, the next signal ends the process.
static AT_ONCE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

/// Installs the handlers: from here on a signal ends the process with the exit code of an interruption.
pub(super) fn watch() -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A process that `nohup` starts outlives its terminal.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&AT_ONCE))
            .and_then(|_| flag::register(signal, Arc::clone(&AT_ONCE)))
            .map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    }
    // With a handler, a write beyond the size that the process may write fails with an error, which is reported like
    // a full disk.
    flag::register(SIGXFSZ, Arc::default())
        .map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))?;
    // SAFETY: the action makes two system calls, both of which a handler may make, and takes no lock.
    unsafe { low_level::register(SIGBUS, explain_fault) }
        .map(drop)
        .map_err(|e| Failure::Machine(format!("cannot watch for signals: {e}")))
}

/// Prints what happened and ends the process. MDBX maps its file into memory. Where a damaged length leads beyond the
/// file's end, or the disk fails, the system sends SIGBUS, and the read cannot be taken up again.
fn explain_fault() {
    const MESSAGE: &[u8] =
        b"error: a file of the data directory cannot be read, because it is damaged or because \
        the disk fails; restore it from a copy, or import again into an empty --datadir\n";
    // The result is ignored: the process ends in any case.
    let _ = rustix::io::write(rustix::stdio::stderr(), MESSAGE);
    low_level::exit(MACHINE.into());
}

/// The flag that the first signal sets; the second signal ends the process at once.
pub(super) fn on_interrupt() -> Arc<AtomicBool> {
    static FIRST: Once = Once::new();
    // The flag is cleared once only: later calls keep what a signal has set since.
    FIRST.call_once(|| AT_ONCE.store(false, Ordering::Relaxed));
    Arc::clone(&AT_ONCE)
}

/// The flag of [`on_interrupt`] for a command that writes this file or fills this directory, so that it can remove
/// unfinished output. Standard output, pipes and devices have none to remove: there the flag never changes, and a
/// signal ends the command.
pub(super) fn on_interrupt_of(output: &Path) -> Arc<AtomicBool> {
    let is_kept = !output.exists() || output.is_file() || output.is_dir();
    match is_kept && output != Path::new("-") {
        true => on_interrupt(),
        false => Arc::default(),
    }
}

/// Whether the parent process made this one ignore a signal; `false` where the system does not report it.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

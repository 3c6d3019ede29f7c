//! The failures of commands and their exit codes, decided in one place.

use crate::{
    access_lists::AccessListFileError,
    blocks::{BlockFileError, ExportError, HeaderError},
    chain::ChainError,
    convert::ConvertError,
    datadir::{FlatError, OpenError},
    import::{ImportError, ShadowError},
    layers::UnknownKind,
    prefetch::PrefetchError,
    prestate::PrestateError,
    state_dump::StateDumpError,
};
use polytrie_chainspec::ChainSpecError;
use polytrie_kv::KvError;
use polytrie_state::{StampError, StateError};
use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt,
    io::{self, Write},
    panic::PanicHookInfo,
    path::Path,
    process::ExitCode,
    thread,
};

pub(super) const DONE: u8 = 0;
const INVALID: u8 = 1;
pub(super) const USAGE: u8 = 2;
pub(super) const MACHINE: u8 = 3;
pub(super) const INTERRUPTED: u8 = 130;

/// The reason why a command did not do its work, with the text for the user.
#[derive(Debug)]
pub enum Failure {
    /// A block or an input is invalid, or a comparison failed: exit code 1.
    Invalid(String),
    /// The command cannot be carried out as it was given: exit code 2.
    Usage(String),
    /// The machine failed us: exit code 3.
    Machine(String),
    /// The content of the data directory is damaged or unfit: exit code 3. `Self::within` adds which directory.
    Stored(String),
    /// The user asked to stop: exit code 130.
    Interrupted(String),
    /// The process that reads our output closed it, so no message can be shown. Exit code 0.
    BrokenPipe,
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::Invalid(_) => INVALID,
            Self::Usage(_) => USAGE,
            Self::Machine(_) | Self::Stored(_) => MACHINE,
            Self::Interrupted(_) => INTERRUPTED,
            Self::BrokenPipe => DONE,
        }
    }

    /// Replaces the text of a failure and keeps its kind.
    fn map(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Invalid(text) => Self::Invalid(words(text)),
            Self::Usage(text) => Self::Usage(words(text)),
            Self::Machine(text) => Self::Machine(words(text)),
            Self::Stored(text) => Self::Stored(words(text)),
            Self::Interrupted(text) => Self::Interrupted(words(text)),
            Self::BrokenPipe => Self::BrokenPipe,
        }
    }

    /// Adds the name of the data directory where the text depends on it.
    pub(super) fn within(self, datadir: Option<&Path>) -> Self {
        match (self, datadir.map(|dir| dir.display().to_string())) {
            (Self::Stored(text), Some(dir)) if !names(&text, &dir) => {
                Self::Stored(format!("in {dir}: {text}"))
            }
            (failure, _) => failure,
        }
    }

    /// Result of a command that found `found` and then tried to write it down. `found` decides even if its output
    /// could not be written; a failed write is then logged as a warning.
    pub(super) fn decide(found: Result<(), Self>, written: Result<(), Self>) -> Result<(), Self> {
        if let (Err(_), Err(unwritten @ (Self::Machine(_) | Self::Stored(_)))) = (&found, &written)
        {
            tracing::warn!("{unwritten}");
        }
        found.and(written)
    }

    /// The failure of a command that needs a block, on a data directory without one.
    pub(super) fn no_block() -> Self {
        Self::Usage("there is no block in the data directory yet; import some first".to_owned())
    }

    /// The failure to write to standard output; a pipe that its reader closed is [`Self::BrokenPipe`].
    pub(super) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Machine(format!(
                "cannot write to standard output: {error}; check where it leads, and the free space there"
            )),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text)
            | Self::Usage(text)
            | Self::Machine(text)
            | Self::Stored(text)
            | Self::Interrupted(text) => f.write_str(text),
            Self::BrokenPipe => f.write_str("broken pipe"),
        }
    }
}

/// Whether a text contains the path of a directory, or of something in it. The path must stand between other
/// characters than those of a name, since a short path can be part of any word.
fn names(text: &str, dir: &str) -> bool {
    let dir = dir.strip_suffix('/').unwrap_or(dir);
    let is_edge = |next: Option<char>| {
        next.is_none_or(|next| !next.is_alphanumeric() && !matches!(next, '-' | '_' | '.'))
    };
    text.match_indices(dir).any(|(at, found)| {
        let (before, after) = (&text[..at], &text[at + found.len()..]);
        is_edge(before.chars().next_back()) && is_edge(after.chars().next())
    })
}

pub(super) fn code(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::from(DONE) };
    let word = match &failure {
        Failure::BrokenPipe => return ExitCode::from(DONE),
        Failure::Interrupted(_) => "interrupted",
        _ => "error",
    };
    let text = failure.to_string();
    // The text of an interruption may begin with the word that is printed before it.
    let text =
        text.strip_prefix("interrupted").map_or(&*text, |rest| rest.trim_start_matches([' ', ';']));
    let mut stderr = io::stderr().lock();
    // If this cannot be printed, there is no other place to report it.
    let _ = writeln!(stderr, "{word}: {text}");
    ExitCode::from(failure.code())
}

/// Prints that the program is at fault, instead of the default message of a panic, which helps no user. The
/// `catch_unwind` in [`super::main`] gives the exit code.
pub(super) fn tell_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
    let reason = info.payload_as_str().unwrap_or("no reason given");
    let mut stderr = io::stderr().lock();
    // If this cannot be printed, there is no other place to report it.
    let _ = writeln!(
        stderr,
        "error: polytrie panicked{place}, in the thread {}: {reason}; unless the machine gives it no more threads or memory this is a fault of the program, please report it",
        thread.name().unwrap_or("without a name"),
    );
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        let _ = writeln!(stderr, "{trace}");
    }
}

/// Says how a command fails: with an error that it wraps, or with the text of the error itself as a [`Failure`] of some
/// kind. In the patterns the error is `E`.
macro_rules! fails_as {
    ($error:ident [$($wrapped:ident),*] { $($pattern:pat $(if $guard:expr)? => $kind:ident,)* }) => {
        impl From<$error> for $crate::cli::Failure {
            fn from(error: $error) -> Self {
                use $error as E;
                match error {
                    $(E::$wrapped(error) => error.into(),)*
                    $($pattern $(if $guard)? => Self::$kind(error.to_string()),)*
                }
            }
        }
    };
}

pub(super) use fails_as;

impl<E> From<Box<E>> for Failure
where
    Self: From<E>,
{
    fn from(error: Box<E>) -> Self {
        Self::from(*error)
    }
}

fails_as!(OpenError [Unknown, Stamp, Spec, Store, State, Chain, Flat] {
    E::NoDirectory | E::NoChain | E::Empty(_) | E::Foreign { .. } => Usage,
    E::Unstamped { .. } | E::Unmarked { .. } | E::Taken { .. } | E::Rules { .. } => Usage,
    E::OtherChain { .. } => Invalid,
    E::RulesLost { .. } | E::Io { .. } | E::NoStore { .. } => Machine,
});

fails_as!(FlatError [Lock] {
    E::Taken { .. } | E::Within { .. } => Usage,
    E::Missing { .. } | E::Damaged { .. } | E::Io { .. } => Machine,
});

impl From<UnknownKind> for Failure {
    fn from(error: UnknownKind) -> Self {
        Self::Usage(error.to_string())
    }
}

fails_as!(StampError [] {
    E::Mismatch { .. } | E::Format { .. } => Usage,
    E::Unreadable { .. } | E::Io { .. } => Machine,
});

fails_as!(ChainSpecError [] {
    E::UnknownChain { .. } => Usage,
    E::Read { .. } => Machine,
    _ => Invalid,
});

fails_as!(KvError [] {
    E::Thread { .. } => Machine,
    _ => Stored,
});

fails_as!(StateError [Store] {
    E::Unsupported { .. } => Usage,
    _ => Stored,
});

fails_as!(ChainError [State] {
    E::Genesis { .. } | E::NoGenesisAccounts { .. } | E::Interrupted { .. } => Usage,
    E::HalfBack { .. } | E::TooDeep { .. } | E::NoUndo { .. } | E::BeforeStart { .. } => Usage,
    E::NotHere { .. } | E::TooLong { .. } | E::AboveHead { .. } => Usage,
    E::GenesisState { .. } | E::Lacking { .. } => Invalid,
    _ => Stored,
});

impl From<BlockFileError> for Failure {
    fn from(error: BlockFileError) -> Self {
        if error.is_io() {
            Self::Machine(error.to_string())
        } else {
            Self::Invalid(error.to_string())
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match &error {
            ExportError::Io { error, .. } if error.kind() == io::ErrorKind::BrokenPipe => {
                Self::BrokenPipe
            }
            ExportError::Start { .. }
            | ExportError::Epoch { .. }
            | ExportError::Network { .. }
            | ExportError::Merged { .. } => Self::Usage(error.to_string()),
            _ => Self::Machine(error.to_string()),
        }
    }
}

fails_as!(ShadowError [Open] {
    E::Differs(_) | E::Refused { .. } => Invalid,
    E::Same { .. } | E::Apart { .. } | E::Begun { .. } => Usage,
    E::Interrupted { .. } => Interrupted,
    E::Broken { .. } => Machine,
});

fails_as!(ConvertError [Open, State, Chain] {
    E::NoHead => Usage,
    E::Root { .. } | E::Different(_) => Invalid,
    E::Interrupted(_) => Interrupted,
});

impl From<HeaderError> for Failure {
    fn from(error: HeaderError) -> Self {
        match error.is_io() {
            true => Self::Machine(error.to_string()),
            false => Self::Invalid(error.to_string()),
        }
    }
}

fails_as!(PrestateError [] {
    E::Read { .. } => Machine,
    E::Nothing(_) | E::Form { .. } | E::Gap { .. } => Invalid,
});

fails_as!(PrefetchError [Open, State, Thread] {
    E::Refused { .. } => Usage,
    E::Listen { .. } | E::Connect { .. } | E::Broken { .. } => Machine,
});

fails_as!(StateDumpError [Open, State, Chain] {
    E::File(ref file) if file.is_io() => Machine,
    E::File(_) | E::Content { .. } | E::Root { .. } | E::Header { .. } => Invalid,
    E::NoDifficulty { .. } | E::NoPreimage { .. } | E::NoHead => Usage,
    E::Write(_) => Machine,
    E::Interrupted => Interrupted,
});

impl From<AccessListFileError> for Failure {
    fn from(error: AccessListFileError) -> Self {
        let text = error.to_string();
        if error.is_ours() { Self::Machine(text) } else { Self::Usage(text) }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Invalid { .. }
            | ImportError::Stored { .. }
            | ImportError::OtherGenesis { .. } => Self::Invalid(error.to_string()),
            ImportError::Shadow(error) => error.into(),
            ImportError::File(error) => error.into(),
            ImportError::AccessLists(error) => error.into(),
            ImportError::Broken { place, error } => {
                let of = place.map(|place| format!("{place}: ")).unwrap_or_default();
                Self::from(*error).map(|text| of + &text)
            }
            ImportError::OtherContent { .. } => Self::Usage(error.to_string()),
            ImportError::Output { .. } | ImportError::Thread { .. } | ImportError::Worker => {
                Self::Machine(error.to_string())
            }
            ImportError::Interrupted { .. } => Self::Interrupted(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{GenerateError, ProduceError};

    #[test]
    fn what_is_stored_fails_with_the_name_of_its_directory() {
        let told = |text: &str, dir: &str| {
            Failure::Stored(text.to_owned()).within(Some(Path::new(dir))).to_string()
        };
        for (text, dir) in [
            ("block 5 of mdbx.dat is damaged.", "."),
            ("a row of the Data is damaged", "D"),
            ("the database is damaged", "data"),
        ] {
            assert_eq!(told(text, dir), format!("in {dir}: {text}"));
        }
        for (text, dir) in [
            ("./db/mdbx.dat is damaged", "."),
            ("cannot open D/db/mdbx.dat: no", "D"),
            ("cannot open D/db/mdbx.dat: no", "D/"),
            ("the store in data is damaged", "data"),
        ] {
            assert_eq!(told(text, dir), text);
        }
    }

    #[test]
    fn what_a_user_can_mend_is_no_failure_of_the_machine() {
        let code = |error| Failure::from(ImportError::from(error)).code();
        for error in [
            ChainError::TooDeep { fork: 1, head: 9, lowest: 3 },
            ChainError::Interrupted { head: 9 },
            ChainError::NoGenesisAccounts { name: "dev".to_owned() },
        ] {
            assert_eq!(code(error), USAGE);
        }
        assert_eq!(code(ChainError::Corrupt("a row".to_owned())), MACHINE);
        let too_large = ProduceError::TooLarge { number: 1, found: 9, max: 8 };
        assert_eq!(Failure::from(GenerateError::from(too_large)).code(), USAGE);
    }
}

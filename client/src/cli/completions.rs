//! `polytrie completions`.

use super::{Cli, exit::Failure};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

/// Write what a shell needs to complete commands, options and names of layers, to standard output.
///
/// For bash: `polytrie completions bash > ~/.local/share/bash-completion/completions/polytrie`. For zsh the file is
/// `_polytrie` in a directory of `$fpath`, for fish `~/.config/fish/completions/polytrie.fish`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "polytrie", &mut script);
    io::stdout().write_all(&script).map_err(|e| Failure::output(&e))
}

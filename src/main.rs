//! The `akg` program.

use std::process::ExitCode;

use clap::Parser as _;

mod cli;

fn main() -> ExitCode {
    // The program is its own worker: it starts itself to run candidates.
    akg::worker::init();
    cli::Cli::parse().run()
}

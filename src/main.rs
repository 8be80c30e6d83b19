//! The `akg` program.

use std::process::ExitCode;

use clap::Parser as _;

mod cli;

/// The reference's arrays come and go by the gigabyte. The system's allocator asks the kernel for new pages each time, which
/// takes longer than what is computed in them; this one keeps them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The program is its own worker: it starts itself to run candidates.
    akg::worker::init();
    cli::Cli::parse().run()
}

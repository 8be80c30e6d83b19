//! `println!` and its kin for the program. Those of the standard library panic when the reader has gone, as in
//! `akg show RUN | head`; these shadow them.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};

macro_rules! println {
    ($($arg:tt)*) => { $crate::cli::print::stdout(format_args!("{}\n", format_args!($($arg)*))) };
}

macro_rules! print {
    ($($arg:tt)*) => { $crate::cli::print::stdout(format_args!($($arg)*)) };
}

macro_rules! eprint {
    ($($arg:tt)*) => { $crate::cli::print::stderr(format_args!($($arg)*)) };
}

macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::cli::print::stderr(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Writes to standard output. A reader that has gone wants no more; any other trouble ends the program, because output
/// that is silently cut is worse than none.
pub(crate) fn stdout(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(e) = out.write_fmt(text).and_then(|()| out.flush())
        && e.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("error: cannot write to standard output: {e}");
        std::process::exit(2);
    }
}

/// Writes to standard error, or to nobody.
pub(crate) fn stderr(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

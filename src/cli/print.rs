//! `println!` and its kin for the program. Those of the standard library panic when the reader has gone, as in
//! `akg show RUN | head`; these shadow them. Names of tasks, messages of modules and texts of models reach a terminal through
//! them, so characters that would control it are escaped.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal as _, Write};

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
    write(|out| Escaping(out).write_fmt(text));
}

/// Writes a text that is a file's content, as it is unless a person looks at it.
pub(crate) fn verbatim(text: &str) {
    if io::stdout().is_terminal() {
        stdout(format_args!("{text}"));
    } else {
        write(|out| out.write_all(text.as_bytes()));
    }
}

fn write(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) {
    let mut out = io::stdout().lock();
    if let Err(e) = write(&mut out).and_then(|()| out.flush())
        && e.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("error: cannot write to standard output: {e}");
        std::process::exit(2);
    }
}

/// Writes to standard error, or to nobody.
pub(crate) fn stderr(text: fmt::Arguments<'_>) {
    let _ = Escaping(io::stderr().lock()).write_fmt(text);
}

/// The text without characters that control a terminal or the direction of text: in their place stands `\u` with four
/// hexadecimal digits, which is also how JSON writes them.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let ends_line = c == '\r' && chars.peek() == Some(&'\n');
        if controls(c) && !ends_line {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character does something to a terminal, or makes text look as if it were in another order.
fn controls(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    let line = matches!(c, '\u{2028}' | '\u{2029}');
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    control || line || direction
}

/// Escapes what is written through it, which is put together first so that no character is cut.
struct Escaping<W>(W);

impl<W: Write> Escaping<W> {
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        match text.as_str() {
            Some(text) => self.0.write_all(escaped(text).as_bytes()),
            None => self.0.write_all(escaped(&text.to_string()).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_shown_instead() {
        let text = "a\tb\r\nc\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{7f}\rd é…";
        let expected = "a\tb\r\nc\\u001b]0;title\\u0007\\u009b31m\\u202e\\u007f\\u000dd é…";
        assert_eq!(escaped(text), expected);
        let json: String = serde_json::from_str(&format!("\"{}\"", escaped("\u{9b}\u{202e}"))).unwrap();
        assert_eq!(json, "\u{9b}\u{202e}");
    }
}

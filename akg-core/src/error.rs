//! The one error type.
//!
//! An [`Error`] is akg's own trouble: bad input, a missing tool, a lost worker. A kernel that does not compile,
//! crashes or computes the wrong thing is not an error but data in a verdict: see [`verdict`](crate::verdict).

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `Result` with akg's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs that branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input is wrong: a graph, a sketch, a Python file, an option.
    InvalidInput,
    /// The input is right but akg, this DSL or this backend cannot do it.
    Unsupported,
    /// A named thing (file, built-in task, DSL, backend) does not exist.
    NotFound,
    /// A program that akg needs (compiler, Python, worker binary) is not installed.
    ToolMissing,
    /// A worker process died or could not be reached.
    WorkerLost,
    /// A peer, such as a worker, broke the protocol, or speaks another version of it.
    Protocol,
    /// A server cannot be reached, fails, limits how often it is asked, or breaks off its reply.
    Unavailable,
    /// A time limit passed.
    Timeout,
    /// Memory or disk space ran out.
    OutOfResources,
    /// What may be spent, of the run's or of an account at a provider, is spent.
    BudgetSpent,
    /// The operating system refused an operation on a file or process.
    Io,
    /// A bug in akg.
    Unexpected,
}

impl ErrorKind {
    /// The kebab-case name used in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidInput => "invalid-input",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::NotFound => "not-found",
            ErrorKind::ToolMissing => "tool-missing",
            ErrorKind::WorkerLost => "worker-lost",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "timeout",
            ErrorKind::OutOfResources => "out-of-resources",
            ErrorKind::BudgetSpent => "budget-spent",
            ErrorKind::Io => "io",
            ErrorKind::Unexpected => "unexpected",
        }
    }

    /// Whether trying again without changing anything can help.
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            ErrorKind::WorkerLost | ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutOfResources
        )
    }
}

/// An error with its kind, what was being done, where, and the cause.
///
/// `Display` is one line; `Debug` has one line for each piece of context and each cause.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` whose message says what failed and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            retry_after: None,
            source: None,
        }))
    }

    /// Shorthand for [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Shorthand for [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Shorthand for [`ErrorKind::Unexpected`].
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unexpected, message)
    }

    /// An operating-system error met while doing `what`. A full disk becomes [`ErrorKind::OutOfResources`], a missing
    /// file [`ErrorKind::NotFound`].
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::OutOfMemory
            | std::io::ErrorKind::QuotaExceeded => ErrorKind::OutOfResources,
            std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Io,
        };
        Self::new(kind, what).caused_by(source)
    }

    /// Adds a named piece of context, such as `("node", "linear_3")`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Records the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Records that trying again cannot help before this has passed.
    #[must_use]
    pub fn retry_in(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// The kind, to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without context or cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// How long to wait before trying again, if whoever failed has said.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The context pairs in the order they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.context.is_empty() {
            f.write_str(" (")?;
            for (i, (key, value)) in self.0.context.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}{key}: {value}")?;
            }
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.name(), self.0.message)?;
        for (key, value) in &self.0.context {
            write!(f, "\n  {key}: {value}")?;
        }
        let mut source = self.source();
        while let Some(cause) = source {
            write!(f, "\n  caused by: {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

/// Adds context to the error of a `Result` on its way up.
pub trait ResultExt<T> {
    /// Adds a named piece of context to the error, computed only if there is one.
    fn context<V: fmt::Display>(self, key: &'static str, value: impl FnOnce() -> V) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context<V: fmt::Display>(self, key: &'static str, value: impl FnOnce() -> V) -> Result<T> {
        self.map_err(|e| e.with(key, value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_with_context_and_cause() {
        let io = std::io::Error::other("quota");
        let error = Error::invalid("cannot add").with("node", "add_1").caused_by(io);
        assert_eq!(error.to_string(), "cannot add (node: add_1): quota");
        assert_eq!(
            format!("{error:?}"),
            "invalid-input: cannot add\n  node: add_1\n  caused by: quota"
        );
    }

    #[test]
    fn io_errors_keep_their_meaning() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Error::io("writing", full).kind(), ErrorKind::OutOfResources);
    }
}

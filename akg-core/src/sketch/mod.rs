//! The tile program.

/// A tile program in its text form's syntax tree.
#[derive(Debug, Clone)]
pub struct Sketch;

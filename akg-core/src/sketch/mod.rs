//! The tile program: how a task is cut into kernels and each kernel into tiles, independent of any DSL.
//!
//! A [`Sketch`] is text with a syntax tree ([`syntax`]). Given values for knobs and extents it elaborates into a typed
//! [`Program`](ir::Program), which is validated, interpreted, costed and lowered.

mod bind;
mod cost;
mod elaborate;
mod examples;
mod interpret;
pub mod ir;
mod lex;
mod parse;
mod print;
pub mod syntax;
mod validate;

use crate::diagnostic::Diagnostics;
pub use cost::{Cost, KernelCost, Warps, cost, cost_with};
pub(crate) use cost::{Rates, knows_warps, peak_tile_bytes};
pub use elaborate::Knob;
pub use examples::examples;
pub(crate) use interpret::concrete;
pub use interpret::{Folds, interpret, interpret_folds};
pub(crate) use parse::is_keyword;
pub use validate::validate;

/// What the language is, for people and for models that write it: Markdown.
pub const LANGUAGE: &str = include_str!("language.md");

/// A parsed sketch.
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch {
    tree: syntax::SketchTree,
}

impl Sketch {
    /// Parses sketch text.
    pub fn parse(text: &str) -> Result<Self, Diagnostics> {
        parse::parse(text).map(Self::from)
    }

    /// The syntax tree.
    pub fn tree(&self) -> &syntax::SketchTree {
        &self.tree
    }
}

impl From<syntax::SketchTree> for Sketch {
    fn from(tree: syntax::SketchTree) -> Self {
        Self { tree }
    }
}

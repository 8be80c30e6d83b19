//! What became of a graph that was rewritten.

use serde::{Deserialize, Serialize};

use super::Graph;

/// A graph and the rules that made it from another.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The graph; the one that was given if nothing better was found.
    pub graph: Graph,
    /// The rules without which it would not have been found; none if nothing changed.
    pub rules: Vec<Fired>,
}

/// A rule and how often it was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// The rule's name.
    pub name: String,
    /// How many values it gave another form.
    pub count: usize,
}

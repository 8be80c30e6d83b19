//! The names of a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::header::{Entity, Header, hint_misused};
use super::scalar::Value;
use super::{Elab, Fault, fault};
use crate::diagnostic::{Diagnostic, closest};
use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::TensorId;
use crate::sketch::syntax::Name;

/// What a name is bound to.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    /// `None` if its value was rejected: uses are not reported again.
    pub(super) value: Option<Value>,
    /// Whether it is a grid or loop index.
    index: bool,
    /// The place of the binding.
    pub(super) span: Range<usize>,
}

/// The names of one block.
pub(super) type Frame = BTreeMap<String, Binding>;

/// The names that a place in a kernel sees.
pub(super) struct Scope<'a> {
    header: &'a Header,
    /// What the names of a template stand for in this instance.
    aliases: BTreeMap<String, Entity>,
    /// The blocks around the place, outermost first.
    frames: Vec<Frame>,
    /// Names of blocks that ended.
    ended: BTreeSet<String>,
    /// Symbols of indices of this kernel.
    symbols: BTreeSet<Symbol>,
    /// Whether the place is one where hints may be read.
    pub(super) hints: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn new(header: &'a Header, aliases: BTreeMap<String, Entity>) -> Self {
        Self {
            header,
            aliases,
            frames: vec![Frame::new()],
            ended: BTreeSet::new(),
            symbols: BTreeSet::new(),
            hints: false,
        }
    }

    fn entity(&self, name: &str) -> Option<&Entity> {
        self.aliases.get(name).or_else(|| self.header.names.get(name))
    }

    /// The binding of a name of the kernel itself.
    pub(super) fn local(&self, name: &str) -> Option<&Binding> {
        self.frames.iter().rev().find_map(|frame| frame.get(name))
    }

    pub(super) fn open(&mut self) {
        self.frames.push(Frame::new());
    }

    /// Ends the innermost block.
    pub(super) fn close(&mut self) -> Frame {
        let frame = self.frames.pop().unwrap_or_default();
        self.ended.extend(frame.keys().cloned());
        frame
    }

    /// Binds in the innermost block without asking.
    pub(super) fn bind(&mut self, name: &str, value: Option<Value>, span: Range<usize>) {
        let binding = Binding {
            value,
            index: false,
            span,
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.insert(name.to_owned(), binding);
        }
    }

    /// `name = value` in the innermost block.
    pub(super) fn assign(&mut self, name: &Name, value: Option<Value>) -> Elab<()> {
        self.refuse_global(name)?;
        let innermost = self.frames.last().is_some_and(|f| f.contains_key(&name.node));
        match self.local(&name.node) {
            Some(binding) if binding.index => {
                return fault(
                    format!("`{}` is an index; nothing may be assigned to it", name.node),
                    name.span.clone(),
                );
            }
            Some(Binding { value: Some(_), .. }) if !innermost => {
                let message = format!(
                    "`{0}` is a constant bound outside this block, so it cannot change inside; \
                     choose another name, or make it a tile: `{0} = full f32[] …`",
                    name.node
                );
                return fault(message, name.span.clone());
            }
            _ => {}
        }
        self.bind(&name.node, value, name.span.clone());
        Ok(())
    }

    /// Binds an index in the innermost block to a symbol of its own.
    pub(super) fn index(&mut self, name: &Name) -> Elab<Symbol> {
        self.refuse_global(name)?;
        if self.local(&name.node).is_some() {
            let message = format!("`{}` already has a meaning here; choose another index", name.node);
            return fault(message, name.span.clone());
        }
        let free = |s: &Symbol| !self.symbols.contains(s) && self.entity(s).is_none();
        let plain = std::iter::once(Symbol::from(name.node.as_str()));
        let numbered = (1..).map(|i| Symbol::from(format!("{}_{i}", name.node)));
        let Some(symbol) = plain.chain(numbered).find(free) else {
            return Err(Fault::Reported);
        };
        self.symbols.insert(symbol.clone());
        let binding = Binding {
            value: Some(Value::Int(Expr::symbol(symbol.clone()))),
            index: true,
            span: name.span.clone(),
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.insert(name.node.clone(), binding);
        }
        Ok(symbol)
    }

    /// Tensors are named where regions are; everything else of the sketch cannot be hidden.
    fn refuse_global(&self, name: &Name) -> Elab<()> {
        match self.entity(&name.node) {
            None | Some(Entity::Tensor(_)) => Ok(()),
            Some(_) => {
                let message = format!(
                    "`{}` already has a meaning in this sketch; choose another name",
                    name.node
                );
                fault(message, name.span.clone())
            }
        }
    }

    /// The value of a name in an expression.
    pub(super) fn value(&self, name: &str, span: &Range<usize>) -> Elab<Value> {
        if let Some(binding) = self.local(name) {
            return binding.value.clone().ok_or(Fault::Reported);
        }
        match self.entity(name) {
            Some(Entity::Int(expr)) => Ok(Value::Int(expr.clone())),
            Some(Entity::Float(value)) => Ok(Value::Float(*value)),
            Some(Entity::Hint(value)) if self.hints => Ok(Value::Int((*value).into())),
            Some(Entity::Hint(_)) => Err(hint_misused(name, span).into()),
            Some(Entity::DType(_)) => fault(
                format!("`{name}` is an element type; cast with `{name}(…)`"),
                span.clone(),
            ),
            Some(Entity::Tensor(_)) => {
                let message = format!("`{name}` is a tensor; read a region of it with `load {name}[…]`");
                fault(message, span.clone())
            }
            None => {
                let error = Diagnostic::error(format!("`{name}` has no meaning here"), span.clone());
                if self.ended.contains(name) {
                    let note =
                        format!("the block that bound `{name}` has ended; bind it before that block too");
                    return Err(error.note(note).into());
                }
                let locals = self.frames.iter().flat_map(Frame::keys);
                let known = locals.chain(self.header.names.keys()).chain(self.aliases.keys());
                Err(match closest(name, known.map(String::as_str)) {
                    Some(known) => error.note(format!("did you mean `{known}`?")),
                    None => error,
                }
                .into())
            }
        }
    }

    /// The tensor of that name.
    pub(super) fn tensor(&self, name: &Name) -> Elab<TensorId> {
        match self.entity(&name.node) {
            Some(Entity::Tensor(id)) => Ok(*id),
            Some(_) => fault(format!("`{}` is no tensor", name.node), name.span.clone()),
            None if self.local(&name.node).is_some() => {
                let message = format!(
                    "`{}` is a tile, not a tensor: it is used without `load`",
                    name.node
                );
                fault(message, name.span.clone())
            }
            None => {
                let error =
                    Diagnostic::error(format!("there is no tensor `{}`", name.node), name.span.clone());
                let tensors = self
                    .header
                    .names
                    .iter()
                    .filter(|(_, e)| matches!(e, Entity::Tensor(_)));
                let names: Vec<_> = tensors.map(|(n, _)| n.as_str()).collect();
                Err(match closest(&name.node, names.iter().copied()) {
                    Some(known) => error.note(format!("did you mean `{known}`?")),
                    None => error.note(format!("there are {}", names.join(", "))),
                }
                .into())
            }
        }
    }

    /// The element type of that name.
    pub(super) fn dtype(&self, name: &str) -> Option<DType> {
        match self.entity(name) {
            Some(Entity::DType(dtype)) => Some(*dtype),
            _ => name.parse().ok(),
        }
    }
}

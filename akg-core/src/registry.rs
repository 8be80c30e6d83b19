//! What is available: DSLs and backends by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::dsl::Dsl;
use crate::error::{Error, ErrorKind, Result};

/// DSLs and backends by name. Crates that supply one export a `register` function that adds it.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    dsls: BTreeMap<String, Arc<dyn Dsl>>,
    backends: BTreeMap<String, Arc<dyn Backend>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a DSL under its name, replacing one of the same name.
    pub fn add_dsl(&mut self, dsl: impl Dsl + 'static) -> &mut Self {
        self.dsls.insert(dsl.name().to_owned(), Arc::new(dsl));
        self
    }

    /// Adds a backend under its name, replacing one of the same name.
    pub fn add_backend(&mut self, backend: impl Backend + 'static) -> &mut Self {
        self.backends.insert(backend.name().to_owned(), Arc::new(backend));
        self
    }

    /// The DSL called `name`.
    pub fn dsl(&self, name: &str) -> Result<Arc<dyn Dsl>> {
        find(&self.dsls, "DSL", name)
    }

    /// The backend called `name`.
    pub fn backend(&self, name: &str) -> Result<Arc<dyn Backend>> {
        find(&self.backends, "backend", name)
    }

    /// Every DSL, by name.
    pub fn dsls(&self) -> impl Iterator<Item = &Arc<dyn Dsl>> {
        self.dsls.values()
    }

    /// Every backend, by name.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.backends.values()
    }
}

fn find<T: ?Sized>(map: &BTreeMap<String, Arc<T>>, what: &str, name: &str) -> Result<Arc<T>> {
    map.get(name).cloned().ok_or_else(|| {
        let known: Vec<_> = map.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "none is registered".to_owned()
        } else {
            known.join(", ")
        };
        Error::new(
            ErrorKind::NotFound,
            format!("there is no {what} called `{name}`; available: {known}"),
        )
    })
}

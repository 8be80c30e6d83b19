//! What language models are told: templates with a version, in the syntax of Jinja.
//!
//! The templates are part of the library; a folder may have others of the same names in their place.

mod sheet;

use std::fmt;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::file::read_text;

pub(crate) use sheet::{DeviceSheet, TaskSheet};

/// The templates by name.
const EMBEDDED: [(&str, &str); 16] = [
    ("objection.md", include_str!("objection.md")),
    ("known.md", include_str!("known.md")),
    ("task-builder/system.md", include_str!("task-builder/system.md")),
    ("task-builder/task.md", include_str!("task-builder/task.md")),
    ("designer/system.md", include_str!("designer/system.md")),
    ("designer/task.md", include_str!("designer/task.md")),
    ("coder/system.md", include_str!("coder/system.md")),
    ("coder/task.md", include_str!("coder/task.md")),
    ("fixer/system.md", include_str!("fixer/system.md")),
    ("fixer/task.md", include_str!("fixer/task.md")),
    ("analyst/system.md", include_str!("analyst/system.md")),
    ("analyst/task.md", include_str!("analyst/task.md")),
    ("conductor/system.md", include_str!("conductor/system.md")),
    ("conductor/task.md", include_str!("conductor/task.md")),
    ("lifter/system.md", include_str!("lifter/system.md")),
    ("lifter/kernel.md", include_str!("lifter/kernel.md")),
];

/// The templates that agents render.
#[derive(Clone)]
pub struct Prompts {
    environment: Environment<'static>,
    digest: Digest,
}

impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompts")
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl Prompts {
    /// The library's own.
    ///
    /// # Errors
    /// Never, unless the library itself is damaged.
    pub fn embedded() -> Result<Self> {
        Self::of(|_| Ok(None))
    }

    /// Those of a folder, such as `designer/task.md`, and the library's where it has none.
    ///
    /// # Errors
    /// A file that cannot be read, or whose syntax is wrong.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        Self::of(|name| {
            let path = folder.join(name);
            match read_text(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn of(other: impl Fn(&str) -> Result<Option<String>>) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let mut texts = Vec::new();
        for (name, own) in EMBEDDED {
            let text = other(name)?.unwrap_or_else(|| own.to_owned());
            texts.push(text.clone());
            environment
                .add_template_owned(name, text)
                .map_err(|e| Error::invalid(format!("the prompt `{name}` is no template: {e:#}")))?;
        }
        Ok(Self {
            environment,
            digest: Digest::of_parts(texts.iter().map(String::as_str)),
        })
    }

    /// What distinguishes these templates from others: a version that nobody has to count.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// A template with its variables filled in.
    pub(crate) fn render(&self, name: &str, variables: impl Serialize) -> Result<String> {
        let template = self.environment.get_template(name);
        let text = template.and_then(|template| template.render(Serde(variables)));
        text.map_err(|e| Error::invalid(format!("the prompt `{name}` cannot be filled in: {e:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_replaces_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let own = Prompts::embedded().unwrap();
        assert_eq!(
            Prompts::from_folder(folder.path()).unwrap().digest(),
            own.digest()
        );
        let file = folder.path().join("objection.md");
        std::fs::write(&file, "No: {{ objection }}").unwrap();
        let other = Prompts::from_folder(folder.path()).unwrap();
        assert_ne!(other.digest(), own.digest());
        let variables = serde_json::json!({"objection": "it is slow"});
        assert_eq!(other.render("objection.md", variables).unwrap(), "No: it is slow");
        std::fs::write(&file, "No: {{ objection").unwrap();
        let error = Prompts::from_folder(folder.path()).unwrap_err();
        assert!(error.to_string().contains("objection.md"), "{error}");
    }

    #[test]
    fn what_a_template_lacks_is_an_error() {
        let prompts = Prompts::embedded().unwrap();
        let error = prompts.render("objection.md", serde_json::json!({})).unwrap_err();
        assert!(error.to_string().contains("objection.md"), "{error}");
    }
}

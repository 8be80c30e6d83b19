//! Prompts held against files that somebody reviewed. `AKG_BLESS=1` accepts other texts.

use std::path::Path;

/// The prompts of a test that differ from their files under `tests/prompts`.
#[derive(Default)]
pub(crate) struct Golden(Vec<String>);

impl Golden {
    pub(crate) fn check(&mut self, name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/prompts")
            .join(name);
        if std::env::var_os("AKG_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            self.0.push(name.to_owned());
        }
    }

    pub(crate) fn assert(self) {
        assert!(
            self.0.is_empty(),
            "{:?} changed; look at them and accept them with AKG_BLESS=1",
            self.0
        );
    }
}

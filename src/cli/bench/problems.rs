//! Which problems there are, and which are wanted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use akg::{Error, Result};

use crate::cli::numbers::Numbers;

/// A problem in its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) level: u32,
    pub(super) number: u32,
    pub(super) path: PathBuf,
}

impl Problem {
    /// Identifies it in the output directory.
    pub(super) fn id(&self) -> String {
        format!("{}-{}", self.level, self.number)
    }

    /// The file's name without number and ending.
    pub(super) fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.split_once('_').map_or("", |(_, name)| name);
        name.trim_matches('_').to_owned()
    }

    /// Whether it is a PyTorch module.
    pub(super) fn is_module(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "py")
    }
}

/// The wanted problems below `root`, which is KernelBench's repository or a directory like its `KernelBench`: `levelN` holds
/// the problems `NUMBER_NAME.py` and, with a graph in JSON, `NUMBER_NAME.json`.
///
/// # Errors
/// Also if a wanted level or problem is not there; of a stretch of numbers, one is enough.
pub(super) fn find(root: &Path, levels: Option<&Numbers>, numbers: Option<&Numbers>) -> Result<Vec<Problem>> {
    let inner = root.join("KernelBench");
    let root = if inner.is_dir() { inner.as_path() } else { root };
    let there = list(root)?
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.strip_prefix("level")?.parse().ok())
        .collect::<BTreeSet<u32>>();
    if let Some(missing) = levels.and_then(|l| l.missing(&there)) {
        return Err(Error::invalid(format!(
            "{} has no level {missing}; it has {}",
            root.display(),
            Numbers::from(&there)
        )));
    }
    let mut problems = Vec::new();
    for level in there.iter().filter(|n| levels.is_none_or(|l| l.contains(**n))) {
        problems.extend(
            list(&root.join(format!("level{level}")))?
                .into_iter()
                .filter_map(|path| {
                    let known = path.extension().is_some_and(|e| e == "py" || e == "json");
                    let (number, _) = path.file_stem()?.to_str()?.split_once('_')?;
                    let number = number.parse().ok().filter(|_| known)?;
                    Some(Problem {
                        level: *level,
                        number,
                        path,
                    })
                }),
        );
    }
    if let Some(wanted) = numbers {
        let there = problems.iter().map(|p| p.number).collect();
        if let Some(missing) = wanted.missing(&there) {
            return Err(Error::invalid(format!(
                "no chosen level of {} has a problem {missing}; there are {}",
                root.display(),
                Numbers::from(&there)
            )));
        }
        problems.retain(|p| wanted.contains(p.number));
    }
    problems.sort();
    if problems.is_empty() {
        return Err(Error::invalid(format!(
            "{} holds no problems; expected are files as level1/1_name.py",
            root.display()
        )));
    }
    if let Some(pair) = problems
        .windows(2)
        .find(|pair| matches!(pair, [a, b] if a.id() == b.id()))
    {
        let files: Vec<_> = pair.iter().map(|p| p.path.display().to_string()).collect();
        return Err(Error::invalid(format!(
            "two files are one problem: {}",
            files.join(" and ")
        )));
    }
    Ok(problems)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| Error::io(format!("cannot list {}", directory.display()), e);
    let entries = std::fs::read_dir(directory).map_err(cannot)?;
    entries.map(|entry| Ok(entry.map_err(cannot)?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_can_be_chosen() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "level1/1_a.py",
            "level1/10_b_.json",
            "level1/notes.txt",
            "level3/2_c.py",
        ] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let ids = |levels: Option<&str>, numbers: Option<&str>| {
            let choice = |text: Option<&str>| text.map(|t| t.parse::<Numbers>().unwrap());
            find(root.path(), choice(levels).as_ref(), choice(numbers).as_ref())
                .map(|found| {
                    found
                        .iter()
                        .map(|p| format!("{} {}", p.id(), p.name()))
                        .collect::<Vec<_>>()
                })
                .map_err(|e| e.to_string())
        };
        assert_eq!(ids(None, None).unwrap(), ["1-1 a", "1-10 b", "3-2 c"]);
        assert_eq!(ids(Some("1"), Some("10")).unwrap(), ["1-10 b"]);
        assert_eq!(ids(None, Some("2-99")).unwrap(), ["1-10 b", "3-2 c"]);
        assert!(ids(Some("2"), None).unwrap_err().contains("it has 1,3"));
        assert!(
            ids(Some("1"), Some("1,2-9"))
                .unwrap_err()
                .contains("there are 1,10")
        );
    }
}

//! Functions that printed kernels call; a source carries only those that it uses.

use std::collections::BTreeSet;

const PRELUDE: &str = include_str!("prelude.py");

/// A function of the prelude: `#: NAME NEEDED...`, then its text until the next.
struct Section {
    name: &'static str,
    needs: Vec<&'static str>,
    text: &'static str,
}

fn sections() -> impl DoubleEndedIterator<Item = Section> {
    let parts: Vec<_> = PRELUDE.split("#: ").skip(1).collect();
    parts.into_iter().map(|section| {
        let (head, text) = section.split_once('\n').unwrap_or((section, ""));
        let mut names = head.split_whitespace();
        Section {
            name: names.next().unwrap_or_default(),
            needs: names.collect(),
            text: text.trim(),
        }
    })
}

/// The functions called `used` and all that they need, in order of definition.
pub(crate) fn text(used: &BTreeSet<&'static str>) -> String {
    let mut wanted = used.clone();
    // A function needs only earlier ones.
    for section in sections().rev() {
        if wanted.contains(section.name) {
            wanted.extend(section.needs);
        }
    }
    sections()
        .filter(|s| wanted.contains(s.name))
        .map(|s| format!("\n\n{}\n", s.text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_need_earlier_ones() {
        let mut seen = BTreeSet::new();
        for section in sections() {
            assert!(section.text.contains(&format!("def {}(", section.name)));
            for needed in section.needs {
                assert!(seen.contains(needed), "{} needs {needed}", section.name);
            }
            assert!(seen.insert(section.name), "{} is defined twice", section.name);
        }
    }
}

//! Functions that printed kernels call, each with what it needs; a source carries only those it uses.

use std::collections::BTreeSet;

const SECTIONS: [&str; 4] = [
    include_str!("prelude/scalars.hpp"),
    include_str!("prelude/math.hpp"),
    include_str!("prelude/dot.hpp"),
    include_str!("prelude/rows.hpp"),
];

/// A section of the prelude: `//# NAME NEEDED...`, then text until the next.
struct Section<'a> {
    name: &'a str,
    needs: Vec<&'a str>,
    text: &'a str,
}

fn sections() -> impl Iterator<Item = Section<'static>> {
    SECTIONS
        .iter()
        .flat_map(|file| file.split("//# ").skip(1))
        .map(|section| {
            let (head, text) = section.split_once('\n').unwrap_or((section, ""));
            let mut names = head.split_whitespace();
            Section {
                name: names.next().unwrap_or_default(),
                needs: names.collect(),
                text,
            }
        })
}

/// The text of the sections called `used` and all that they need, in order of definition.
pub(crate) fn text(used: &BTreeSet<&'static str>) -> String {
    let mut wanted: BTreeSet<&str> = used.iter().copied().collect();
    let all: Vec<_> = sections().collect();
    // A section needs only earlier ones.
    for section in all.iter().rev() {
        if wanted.contains(section.name) {
            wanted.extend(section.needs.iter().copied());
        }
    }
    all.iter()
        .filter(|s| wanted.contains(s.name))
        .map(|s| s.text)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_need_earlier_ones() {
        let mut seen = BTreeSet::new();
        for section in sections() {
            for needed in section.needs {
                assert!(seen.contains(needed), "{} needs {needed}", section.name);
            }
            assert!(seen.insert(section.name), "{} is defined twice", section.name);
        }
    }
}

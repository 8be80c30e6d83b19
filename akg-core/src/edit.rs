//! Edits of a text: lines that stand in it exactly once, and what takes their place.
//!
//! Models write them in the form of conflict markers:
//!
//! ```text
//! <<<<<<< SEARCH
//! lines as they are
//! =======
//! lines as they should be
//! >>>>>>> REPLACE
//! ```
//!
//! Nothing is guessed: lines that are not there, or more than once, are an objection that says what is there instead.

use std::fmt;

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";

/// Lines of a text and what takes their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Whole lines, one after the other, without the last one's end.
    pub old: String,
    /// What stands in their place; nothing at all removes them.
    pub new: Option<String>,
}

impl Edit {
    /// The edits in a text, in order; none if it has no such marker.
    ///
    /// # Errors
    /// What is wrong with the form of one, for whoever wrote it.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut edits = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim() != SEARCH {
                continue;
            }
            let number = edits.len() + 1;
            let mut until = |end: &str| -> Result<Vec<&str>, String> {
                let mut part = Vec::new();
                for line in lines.by_ref() {
                    match line.trim() {
                        marker if marker == end => return Ok(part),
                        SEARCH | DIVIDER | REPLACE => break,
                        _ => part.push(line),
                    }
                }
                Err(format!("Edit {number} is not complete: `{end}` is missing."))
            };
            let old = until(DIVIDER)?;
            let new = until(REPLACE)?;
            if old.iter().all(|line| line.trim().is_empty()) {
                return Err(format!(
                    "Edit {number} searches for nothing: it must name at least one line of the text, which its replacement repeats \
                     where it stays."
                ));
            }
            edits.push(Self {
                old: old.join("\n"),
                new: (!new.is_empty()).then(|| new.join("\n")),
            });
        }
        Ok(edits)
    }

    /// A text after these edits, each made in what those before it left; all of them or none.
    ///
    /// # Errors
    /// Which edit does not fit and what is there instead, for whoever wrote it.
    pub fn apply(edits: &[Self], text: &str) -> Result<String, String> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        for (number, edit) in (1..).zip(edits) {
            let old: Vec<&str> = edit.old.split('\n').collect();
            let windows = lines.windows(old.len()).enumerate();
            let places: Vec<usize> = windows.filter(|(_, w)| *w == old).map(|(at, _)| at).collect();
            let at = match places.as_slice() {
                [at] => *at,
                [] => return Err(missing(number, &old, &lines)),
                several => {
                    let numbers: Vec<String> = several.iter().map(|at| (at + 1).to_string()).collect();
                    return Err(format!(
                        "The lines that edit {number} searches for stand in the text {} times, at lines {}: add lines before or \
                         after them, so that they stand there once.",
                        several.len(),
                        numbers.join(", ")
                    ));
                }
            };
            let new = edit.new.iter().flat_map(|new| new.split('\n'));
            lines.splice(at..at + old.len(), new);
        }
        Ok(lines.join("\n"))
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{SEARCH}\n{}\n{DIVIDER}", self.old)?;
        if let Some(new) = &self.new {
            writeln!(f, "{new}")?;
        }
        writeln!(f, "{REPLACE}")
    }
}

/// That lines are not there, with those that are most like them.
fn missing(number: usize, old: &[&str], lines: &[&str]) -> String {
    let like = |window: &[&str]| -> f64 {
        let pairs = window.iter().zip(old);
        pairs
            .map(|(a, b)| strsim::normalized_levenshtein(a.trim(), b.trim()))
            .sum()
    };
    let length = old.len().min(lines.len()).max(1);
    let windows = lines.windows(length).enumerate();
    let nearest = windows.max_by(|(a, x), (b, y)| like(x).total_cmp(&like(y)).then(b.cmp(a)));
    let begin = format!("The lines that edit {number} searches for are not in the text");
    match nearest {
        Some((at, window)) => format!(
            "{begin}. They must be the same to the last blank. What is most like them begins at line {}:\n\n```\n{}\n```",
            at + 1,
            window.join("\n")
        ),
        None => format!("{begin}."),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        Edit {
            old: old.to_owned(),
            new: Some(new.to_owned()),
        }
    }

    #[test]
    fn edits_are_found_between_prose() {
        let text = "The mask was wrong.\n\n```\n<<<<<<< SEARCH\n  a\n\n  b\n=======\n  c\n>>>>>>> REPLACE\n```\nAnd:\n\
                    <<<<<<< SEARCH\nd\n=======\n>>>>>>> REPLACE\nThat is all.";
        let removes = Edit {
            old: "d".to_owned(),
            new: None,
        };
        assert_eq!(Edit::parse(text).unwrap(), [edit("  a\n\n  b", "  c"), removes]);
        assert_eq!(Edit::parse("Nothing is wrong.").unwrap(), []);
    }

    #[test]
    fn edits_that_are_not_complete_say_so() {
        for (text, wanted) in [
            ("<<<<<<< SEARCH\na\n", "`=======` is missing"),
            ("<<<<<<< SEARCH\na\n=======\nb\n", "`>>>>>>> REPLACE` is missing"),
            ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "`=======` is missing"),
            (
                "<<<<<<< SEARCH\n\n=======\nb\n>>>>>>> REPLACE\n",
                "searches for nothing",
            ),
        ] {
            let wrong = Edit::parse(text).unwrap_err();
            assert!(wrong.contains(wanted), "{wrong}");
        }
    }

    #[test]
    fn what_is_there_instead_is_shown() {
        let text = "for (i = 0; i < n; i++) {\n  y[i] = x[i];\n}\n";
        let wrong = Edit::apply(&[edit("  y[i] = x[j];", "")], text).unwrap_err();
        assert!(
            wrong.contains("line 2") && wrong.contains("  y[i] = x[i];"),
            "{wrong}"
        );
        // Part of a line is no line, and indentation counts.
        for part in ["y[i] = x[i];", "  y[i] = x[i]"] {
            Edit::apply(&[edit(part, "")], text).unwrap_err();
        }
        let wrong = Edit::apply(&[edit("a", "b")], "a\nc\na\n").unwrap_err();
        assert!(wrong.contains("2 times, at lines 1, 3"), "{wrong}");
    }

    /// Lines of few letters, so that some are there twice.
    fn text() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[ ab]{0,3}", 1..12)
    }

    proptest! {
        /// Exactly the lines of the edit change if they are there once, and nothing does otherwise.
        #[test]
        fn one_place_changes(lines in text(), from in 0usize..12, count in 1usize..4, new in text()) {
            let from = from % lines.len();
            let to = (from + count).min(lines.len());
            let old = lines[from..to].join("\n");
            let edits = [edit(&old, &new.join("\n"))];
            let same = lines.windows(to - from).filter(|w| w.join("\n") == old).count();
            match Edit::apply(&edits, &lines.join("\n")) {
                Ok(changed) => {
                    prop_assert_eq!(same, 1);
                    let wanted = [&lines[..from], &new[..], &lines[to..]].concat();
                    prop_assert_eq!(changed, wanted.join("\n"));
                }
                Err(_) => prop_assert!(same > 1),
            }
        }

        /// What is not there is an objection, whatever is.
        #[test]
        fn lines_that_are_not_there_change_nothing(lines in text()) {
            prop_assert!(Edit::apply(&[edit("c", "d")], &lines.join("\n")).is_err());
        }

        /// What is written is read.
        #[test]
        fn the_form_can_be_read_back(parts in proptest::collection::vec((text(), text()), 0..4)) {
            let edits: Vec<Edit> = parts.iter().map(|(old, new)| Edit {
                old: format!("x{}", old.join("\n")), new: Some(new.join("\n")),
            }).collect();
            let written: Vec<String> = edits.iter().map(|e| format!("Then:\n{e}\n")).collect();
            let written = written.concat();
            prop_assert_eq!(Edit::parse(&written).unwrap(), edits);
        }

        /// No text is too strange to be looked at.
        #[test]
        fn parsing_ends(text in "([<>=]{7}( SEARCH| REPLACE)?\n|[ab ]{0,3}\n){0,12}") {
            if let Ok(edits) = Edit::parse(&text) {
                let _ = Edit::apply(&edits, &text);
            }
        }
    }
}

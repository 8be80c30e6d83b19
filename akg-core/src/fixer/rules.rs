//! The fixer that follows rules.

use async_trait::async_trait;

use super::{FixContext, Fixer, Wish, whole_text};
use crate::agent::Agent;
use crate::error::Result;
use crate::source::Source;
use crate::verdict::FailureKind;

/// The fixer that takes compilers at their word: it adds the include that one asks for, and writes the name that one
/// suggests in the place of one that nobody declared. It knows nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleFixer;

#[async_trait]
impl Agent<Fixer> for RuleFixer {
    fn name(&self) -> &str {
        "rules"
    }

    async fn step(&self, context: &FixContext) -> Result<Option<Source>> {
        let Wish::Repair(failure) = &context.wish else {
            return Ok(None);
        };
        if failure.kind != FailureKind::CompileFailed {
            return Ok(None);
        }
        let text = whole_text(&*context.dsl, &context.source)?;
        let fixed = missing_include(&failure.evidence, &text).or_else(|| suggested(&failure.evidence, &text));
        // What cannot be read any more was no repair.
        Ok(fixed.and_then(|text| context.dsl.parse(&text).ok()))
    }
}

/// The text with the first include that a compiler asks for and that it lacks, before the first line of code.
fn missing_include(evidence: &str, text: &str) -> Option<String> {
    let mut asked = evidence.split("#include <").skip(1);
    let line = asked.find_map(|rest| {
        let line = format!("#include <{}>", rest.split_once('>')?.0);
        (!text.lines().any(|l| l.trim() == line)).then_some(line)
    })?;
    let is_code = |l: &&str| !l.trim().is_empty() && !l.trim_start().starts_with("//");
    let at = text
        .lines()
        .take_while(|l| !is_code(l))
        .map(|l| l.len() + 1)
        .sum::<usize>();
    let (head, rest) = text.split_at_checked(at)?;
    Some(format!("{head}{line}\n{rest}"))
}

/// The text with the name that a compiler suggests: `LINE:COLUMN: error: 'WRONG' …; did you mean 'RIGHT'?`.
fn suggested(evidence: &str, text: &str) -> Option<String> {
    evidence.lines().find_map(|line| {
        let (place, message) = line.split_once(": error: ")?;
        let mut numbers = place.rsplit(':').map(|n| n.parse::<usize>().ok());
        let (column, number) = (numbers.next()??, numbers.next()??);
        let right = quoted(message.split_once("did you mean ")?.1)?;
        let before: usize = text
            .split_inclusive('\n')
            .take(number.checked_sub(1)?)
            .map(str::len)
            .sum();
        let (head, rest) = text.split_at_checked(before + column.checked_sub(1)?)?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let wrong = rest
            .split(|c: char| !is_word(c))
            .next()
            .filter(|w| !w.is_empty())?;
        (message.contains(wrong) && wrong != right).then(|| format!("{head}{right}{}", &rest[wrong.len()..]))
    })
}

/// What stands between the first quotes, of whatever kind.
fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['\'', '‘', '`', '"']);
    text.split(['\'', '’', '`', '"', '?'])
        .next()
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_taken_at_their_word() {
        let text = "// akg-launch: {}\n#include <cstdint>\nvoid f() {\n  memcpy(a, b, 4);\n  flot x;\n}\n";
        let evidence = "kernel.cpp:4:3: error: 'memcpy' was not declared in this scope\nkernel.cpp:2:1: note: 'memcpy' is defined \
                        in header '<cstring>'; this is probably fixable by adding '#include <cstring>'\n    +++ |+#include <cstring>";
        let fixed = missing_include(evidence, text).unwrap();
        assert!(
            fixed.starts_with("// akg-launch: {}\n#include <cstring>\n#include <cstdint>\n"),
            "{fixed}"
        );
        assert_eq!(missing_include(evidence, &fixed), None);
        for quotes in [["'", "'"], ["‘", "’"]] {
            let [open, close] = quotes;
            let evidence = format!(
                "kernel.cpp:5:3: error: {open}flot{close} was not declared in this scope; did you mean {open}float{close}?"
            );
            let fixed = suggested(&evidence, text).unwrap();
            assert_eq!(fixed, text.replace("flot x", "float x"));
        }
        for evidence in [
            "",
            "kernel.cpp:5:3: error: expected ';'",
            "kernel.cpp:99:3: error: 'a'; did you mean 'b'?",
        ] {
            assert_eq!(suggested(evidence, text), None);
            assert_eq!(missing_include(evidence, text), None);
        }
    }
}

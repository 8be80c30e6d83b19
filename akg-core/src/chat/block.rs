//! Code in the replies of models.

/// A fenced block of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// What follows the opening fence: the language, if one is named.
    pub language: &'a str,
    /// The lines between the fences.
    pub text: &'a str,
}

impl<'a> Block<'a> {
    /// The fenced blocks of a text, in order. One that is never closed reaches to the end; a fence that names a language
    /// closes the block before it and opens another.
    pub fn all(text: &'a str) -> Vec<Self> {
        let mut blocks = Vec::new();
        let mut open: Option<(&str, usize)> = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let next = at + line.len();
            if line.trim_start().starts_with("```") {
                let language = line.trim().trim_start_matches('`');
                let before = open.take();
                if let Some((language, start)) = before {
                    blocks.extend(text.get(start..at).map(|text| Self { language, text }));
                }
                if before.is_none() || !language.is_empty() {
                    open = Some((language, next));
                }
            }
            at = next;
        }
        if let Some((language, start)) = open {
            blocks.extend(text.get(start..).map(|text| Self { language, text }));
        }
        blocks
    }

    /// The last block that `wanted` accepts, or the whole text if it has no block and is accepted itself.
    pub fn last(text: &'a str, wanted: impl Fn(&str) -> bool) -> Option<&'a str> {
        let blocks = Self::all(text);
        if blocks.is_empty() {
            return Some(text).filter(|text| wanted(text));
        }
        let mut texts = blocks.iter().rev().map(|block| block.text);
        texts.find(|text| wanted(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_their_fences_say() {
        let text = "First:\n```cpp\nint a;\n```\nor\n  ```\n  b\n  ```\nand unclosed\n```c\nd\n```python\ne";
        let blocks: Vec<_> = Block::all(text).iter().map(|b| (b.language, b.text)).collect();
        let wanted = [("cpp", "int a;\n"), ("", "  b\n"), ("c", "d\n"), ("python", "e")];
        assert_eq!(blocks, wanted);
        assert!(Block::all("no code").is_empty());
    }

    #[test]
    fn the_last_word_counts() {
        let text = "```\na 1\n```\n```\na 2\n```\n```\nb\n```";
        let begins = |text: &str| text.starts_with('a');
        assert_eq!(Block::last(text, begins), Some("a 2\n"));
        assert_eq!(Block::last("a 3", begins), Some("a 3"));
        assert_eq!(Block::last("b", begins), None);
        assert_eq!(Block::last("a\n```\nb\n```", begins), None);
    }
}

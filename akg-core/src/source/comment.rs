//! Foreign text in comments of generated sources.

/// Returns the lines of `text` as they can stand in comments of C, C++ and Python. No line goes on with the next one (a `\`
/// at its end, also as a trigraph), ends a block comment, or breaks where one of these languages sees a line end that
/// another does not. Characters that control a terminal or the direction of text become `?`.
pub fn comment_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
    lines.filter(move |_| !text.is_empty()).map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let plain: String = line.chars().map(|c| if is_plain(c) { c } else { '?' }).collect();
        let plain = plain.replace("*/", "* /").replace("??/", "? ?/");
        plain
            .trim_end_matches(|c: char| c == '\\' || c.is_whitespace())
            .to_owned()
    })
}

fn is_plain(c: char) -> bool {
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    let directs =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\t' || !(c.is_control() || breaks || directs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_with_their_lines() {
        let text = "one \\ \ntwo??/\n*/ int x;\r\na\rimport os\u{2028}b\u{1b}[31m\n\u{202e}";
        let lines: Vec<_> = comment_lines(text).collect();
        assert_eq!(lines, ["one", "two? ?/", "* / int x;", "a?import os?b?[31m", "?"]);
        assert_eq!(comment_lines("").count(), 0);
    }
}

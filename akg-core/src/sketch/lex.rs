//! Splits sketch text into tokens.

use std::ops::Range;

use crate::diagnostic::{Diagnostic, Diagnostics};

/// One token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// An integer.
    Int(i64),
    /// A floating number, `inf` and `nan` included.
    Float(f64),
    /// An operator or bracket, one of [`SIGNS`].
    Sign(&'static str),
    /// The text of a comment that has a line of its own, without `#` and one space.
    Comment(&'a str),
    /// The end of the text.
    End,
}

/// A token with its place.
#[derive(Debug, Clone)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    pub(super) span: Range<usize>,
    /// Whether nothing but space precedes it on its line.
    pub(super) starts_line: bool,
}

/// Operators and brackets, longer ones before their prefixes.
const SIGNS: [&str; 36] = [
    "->", ":+", "..", "//", "<=", ">=", "==", "!=", "<<", ">>", "+=", "(", ")", "[", "]", "{", "}", ",", ":",
    "=", "+", "-", "*", "/", "%", "<", ">", "&", "|", "^", "!", ".", ";", "?", "@", "~",
];

/// The longest name in bytes.
const MAX_NAME: usize = 256;

/// Every token of `text`, [`Token::End`] last. Characters that begin no token are reported and skipped.
pub(super) fn lex<'a>(text: &'a str, diagnostics: &mut Diagnostics) -> Vec<Lexeme<'a>> {
    let mut out = Vec::new();
    let mut at = 0;
    let mut starts_line = true;
    while let Some(first) = rest(text, at).chars().next() {
        let start = at;
        let tail = rest(text, at);
        let token = match first {
            '\n' => {
                at += 1;
                starts_line = true;
                continue;
            }
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => {
                let line = tail.lines().next().unwrap_or_default();
                at += line.len();
                if !starts_line {
                    continue;
                }
                let comment = line.strip_prefix('#').unwrap_or_default();
                Token::Comment(comment.strip_prefix(' ').unwrap_or(comment).trim_end())
            }
            c if c.is_ascii_digit() => {
                let length = number_length(tail);
                at += length;
                match number(rest(tail, 0).get(..length).unwrap_or_default()) {
                    Ok(token) => token,
                    Err(message) => {
                        diagnostics.push(Diagnostic::error(message, start..at));
                        Token::Int(0)
                    }
                }
            }
            c if is_word(c) => {
                let word = tail.split(|c| !is_word(c)).next().unwrap_or_default();
                at += word.len();
                if word.len() > MAX_NAME {
                    let message = format!("a name of {} bytes; at most {MAX_NAME} are allowed", word.len());
                    diagnostics.push(Diagnostic::error(message, start..at));
                    continue;
                }
                match word {
                    "inf" => Token::Float(f64::INFINITY),
                    "nan" => Token::Float(f64::NAN),
                    _ => Token::Word(word),
                }
            }
            c => match SIGNS.iter().find(|s| tail.starts_with(**s)) {
                Some(sign) => {
                    at += sign.len();
                    Token::Sign(sign)
                }
                None => {
                    at += c.len_utf8();
                    let message = format!("`{}` means nothing in a sketch", c.escape_debug());
                    diagnostics.push(Diagnostic::error(message, start..at));
                    continue;
                }
            },
        };
        out.push(Lexeme {
            token,
            span: start..at,
            starts_line,
        });
        starts_line = false;
    }
    // One character wide, so that a message about the end points somewhere.
    let end = text.trim_end().len();
    out.push(Lexeme {
        token: Token::End,
        span: end..end + 1,
        starts_line: true,
    });
    out
}

fn rest(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes of the number that `text` begins with: letters and digits, a `.` before a digit, a sign after an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let hex = text.starts_with("0x");
    let exponent: &[u8] = if hex { b"pP" } else { b"eE" };
    let at = |i: usize| bytes.get(i).copied().unwrap_or(b' ');
    let mut i = 0;
    loop {
        let c = at(i);
        let part_of_number = c.is_ascii_alphanumeric()
            || c == b'_'
            || (c == b'.' && at(i + 1).is_ascii_alphanumeric())
            || ((c == b'-' || c == b'+')
                && i > 0
                && exponent.contains(&at(i - 1))
                && at(i + 1).is_ascii_digit());
        if !part_of_number {
            return i;
        }
        i += 1;
    }
}

fn number<'a>(text: &str) -> Result<Token<'a>, String> {
    let too_large = || format!("`{text}` does not fit a 64-bit integer");
    let malformed = || format!("`{text}` is not a number; write 12, 0x1f, 0.5, 1e-6 or 0x1p-11");
    if let Some(hex) = text.strip_prefix("0x") {
        if hex.contains(['p', 'P', '.']) {
            return hex_float(hex).map(Token::Float).ok_or_else(malformed);
        }
        if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        return i64::from_str_radix(hex, 16)
            .map(Token::Int)
            .map_err(|_| too_large());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Token::Int).map_err(|_| too_large());
    }
    let value = text.parse::<f64>().map_err(|_| malformed())?;
    if value.is_infinite() {
        return Err(format!(
            "`{text}` does not fit a 64-bit float; write inf if that is meant"
        ));
    }
    Ok(Token::Float(value))
}

/// `1.8p-3`: hexadecimal digits times a power of two. Digits beyond 53 bits are refused.
fn hex_float(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let exponent = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    if mantissa >> 53 != 0 || exponent.abs() > 1100 {
        return None;
    }
    // Two factors, because 2^-1074 alone is representable but 2^-1100 is not.
    let half = exponent / 2;
    Some(mantissa as f64 * 2f64.powi(half) * 2f64.powi(exponent - half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut diagnostics = Diagnostics::new();
        let out = lex(text, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{}", diagnostics.render(text));
        out.into_iter().map(|l| l.token).collect()
    }

    #[test]
    fn numbers() {
        use Token::*;
        assert_eq!(
            tokens("0..4 0x1p-11 0x1.8p1 0x1f 1e-6 2.5e3 inf"),
            [
                Int(0),
                Sign(".."),
                Int(4),
                Float(2f64.powi(-11)),
                Float(3.0),
                Int(31),
                Float(1e-6),
                Float(2500.0),
                Float(f64::INFINITY),
                End
            ]
        );
        for bad in ["12abc", "0x", "0xp1", "99999999999999999999", "1e999", "0x1.8"] {
            let mut diagnostics = Diagnostics::new();
            lex(bad, &mut diagnostics);
            assert!(diagnostics.has_errors(), "{bad}");
        }
    }

    #[test]
    fn only_comments_on_lines_of_their_own_are_kept() {
        use Token::*;
        assert_eq!(
            tokens("#  a\nx :+ 1 # b\n#\n"),
            [Comment(" a"), Word("x"), Sign(":+"), Int(1), Comment(""), End]
        );
    }
}

//! What the texts of kernel languages are made of, as far as it takes to say that two are the same.

use std::collections::BTreeSet;

/// What a language looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Syntax {
    /// Blocks in braces and comments as C++ has them; lines do not matter but for directives.
    Braces,
    /// Blocks by indentation and comments as Python has them.
    Indented,
}

/// One piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lexeme<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// A number, with whatever letters it has.
    Number(&'a str),
    /// A string or character with its quotes.
    Quoted(&'a str),
    /// A bracket, comma or semicolon alone, or other signs as they stand together.
    Sign(&'a str),
    /// A directive of the preprocessor up to the end of its line, as it stands.
    Directive(&'a str),
    /// The end of a line that matters.
    Line,
    /// A block begins.
    Indent,
    /// A block ends.
    Dedent,
}

impl<'a> Lexeme<'a> {
    pub(super) fn text(&self) -> &'a str {
        match self {
            Lexeme::Word(text)
            | Lexeme::Number(text)
            | Lexeme::Quoted(text)
            | Lexeme::Sign(text)
            | Lexeme::Directive(text) => text,
            Lexeme::Line => "\n",
            Lexeme::Indent => "\u{2}",
            Lexeme::Dedent => "\u{3}",
        }
    }
}

/// Signs that never join with others.
const ALONE: &str = "()[]{},;";

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The lexemes of a text; `None` where there is something that this does not understand.
pub(super) fn lexemes(text: &str, syntax: Syntax) -> Option<Vec<Lexeme<'_>>> {
    Lexer {
        text,
        syntax,
        at: 0,
        depth: 0,
        indents: vec![0],
        out: Vec::new(),
    }
    .all()
}

struct Lexer<'a> {
    text: &'a str,
    syntax: Syntax,
    at: usize,
    /// Open brackets.
    depth: usize,
    /// The widths of open blocks.
    indents: Vec<usize>,
    out: Vec<Lexeme<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next so many bytes.
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let taken = self.rest().get(..length)?;
        self.at += length;
        Some(taken)
    }

    fn all(mut self) -> Option<Vec<Lexeme<'a>>> {
        let mut starts_line = true;
        while !self.rest().is_empty() {
            if starts_line && self.syntax == Syntax::Indented && self.depth == 0 {
                self.indentation()?;
            }
            starts_line = self.next(starts_line)?;
        }
        Some(self.out)
    }

    /// Takes the space before a line, unless there is nothing else on it.
    fn indentation(&mut self) -> Option<()> {
        let line = self.rest().lines().next().unwrap_or_default();
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            return Some(());
        }
        let space = line.get(..line.len() - content.len())?;
        // How wide a tab is depends.
        if space.contains('\t') {
            return None;
        }
        let width = self.take(space.len())?.len();
        if self.indents.last().is_some_and(|last| width > *last) {
            self.indents.push(width);
            self.out.push(Lexeme::Indent);
        }
        while self.indents.last().is_some_and(|last| width < *last) {
            self.indents.pop();
            self.out.push(Lexeme::Dedent);
        }
        (self.indents.last() == Some(&width)).then_some(())
    }

    /// Takes one lexeme or some space; whether a line starts after it.
    fn next(&mut self, starts_line: bool) -> Option<bool> {
        let rest = self.rest();
        let first = rest.chars().next()?;
        if first == '\n' {
            self.take(1)?;
            let ends = self.syntax == Syntax::Indented && self.depth == 0;
            if ends
                && !matches!(
                    self.out.last(),
                    None | Some(Lexeme::Line | Lexeme::Indent | Lexeme::Dedent)
                )
            {
                self.out.push(Lexeme::Line);
            }
            return Some(true);
        }
        if first.is_whitespace() {
            self.take(first.len_utf8())?;
            return Some(starts_line);
        }
        if first == '\\' {
            // Lines that go on.
            return (rest.starts_with("\\\n") && self.take(2).is_some()).then_some(false);
        }
        if let Some(length) = self.comment(rest)? {
            self.take(length)?;
            return Some(starts_line);
        }
        if first == '#' && starts_line {
            let length = directive(rest)?;
            let text = self.take(length)?;
            self.out.push(Lexeme::Directive(text.trim_end()));
            return Some(false);
        }
        let lexeme = if first == '"' || first == '\'' {
            let length = quoted(rest, self.syntax)?;
            Lexeme::Quoted(self.take(length)?)
        } else if first.is_ascii_digit() {
            Lexeme::Number(self.take(number(rest))?)
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            // Strings with prefixes have rules of their own.
            if rest.get(length..)?.starts_with(['"', '\'']) {
                return None;
            }
            Lexeme::Word(self.take(length)?)
        } else if ALONE.contains(first) {
            match first {
                '(' | '[' | '{' => self.depth += 1,
                ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            Lexeme::Sign(self.take(1)?)
        } else {
            Lexeme::Sign(self.take(signs(rest))?)
        };
        self.out.push(lexeme);
        Some(false)
    }

    /// The length of a comment that begins here.
    #[expect(clippy::option_option, reason = "no comment, or one that does not end")]
    fn comment(&self, rest: &str) -> Option<Option<usize>> {
        let line = || rest.find('\n').unwrap_or(rest.len());
        Some(match self.syntax {
            Syntax::Indented if rest.starts_with('#') => Some(line()),
            // A comment that goes on in the next line is too unusual.
            Syntax::Braces if rest.starts_with("//") => {
                (!rest.get(..line())?.ends_with('\\')).then_some(())?;
                Some(line())
            }
            Syntax::Braces if rest.starts_with("/*") => Some(rest.find("*/")? + 2),
            _ => None,
        })
    }
}

/// The length of signs that stand together, up to a comment.
fn signs(rest: &str) -> usize {
    let ends = |(at, c): &(usize, char)| {
        let is_comment = rest
            .get(*at..)
            .is_some_and(|rest| rest.starts_with("//") || rest.starts_with("/*"));
        let other = is_word(*c) || c.is_whitespace() || ALONE.contains(*c) || "\"'#\\".contains(*c);
        *at > 0 && (other || is_comment)
    };
    rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at)
}

/// The length of a number: digits, letters, points, and signs after exponents.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let goes_on = |(at, c): &(usize, char)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let exponent = matches!(before, Some(b'e' | b'E' | b'p' | b'P'));
        // 0xe+1 is a sum in Python; to take it for one number tells too much apart, which is safe.
        is_word(*c) || *c == '.' || exponent && (*c == '+' || *c == '-')
    };
    let end = rest.char_indices().find(|place| !goes_on(place));
    end.map_or(rest.len(), |(at, _)| at)
}

/// The length of a string with its quotes.
fn quoted(rest: &str, syntax: Syntax) -> Option<usize> {
    let quote = rest.get(..1)?;
    let triple = quote.repeat(3);
    let ending = if syntax == Syntax::Indented && rest.starts_with(&triple) {
        triple
    } else {
        quote.to_owned()
    };
    let mut at = ending.len();
    loop {
        let left = rest.get(at..)?;
        if left.starts_with(&ending) {
            return Some(at + ending.len());
        }
        let next = left.chars().next()?;
        let escaped = left.chars().nth(1).filter(|_| next == '\\');
        if next == '\n' && ending.len() == 1 {
            return None;
        }
        at += next.len_utf8() + escaped.map_or(0, char::len_utf8);
    }
}

/// The length of a directive, with lines that go on.
fn directive(rest: &str) -> Option<usize> {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        length += line.len();
        // A comment may hide the end.
        if line.contains("/*") {
            return None;
        }
        if !line.trim_end_matches('\n').ends_with('\\') {
            return Some(length - usize::from(line.ends_with('\n')));
        }
    }
    Some(length)
}

impl Syntax {
    /// The names that only the text itself knows: those that are bound in a function and stand nowhere where something outside
    /// could be meant.
    pub(super) fn locals<'a>(self, lexemes: &[Lexeme<'a>]) -> BTreeSet<&'a str> {
        let mut locals = match self {
            Syntax::Braces => bound_in_braces(lexemes),
            Syntax::Indented => bound_in_blocks(lexemes),
        };
        let mut depth = 0usize;
        for (at, lexeme) in lexemes.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| lexemes.get(at));
            let after = lexemes.get(at + 1);
            match lexeme {
                Lexeme::Sign("(" | "[" | "{") => depth += 1,
                Lexeme::Sign(")" | "]" | "}") => depth = depth.saturating_sub(1),
                // Strings and directives may name anything.
                Lexeme::Quoted(text) | Lexeme::Directive(text) => {
                    locals.retain(|name| !text.split(|c| !is_word(c)).any(|word| word == *name));
                }
                Lexeme::Word(word) if locals.contains(word) => {
                    let sign = |lexeme: Option<&Lexeme<'a>>| match lexeme {
                        Some(Lexeme::Sign(sign)) => *sign,
                        _ => "",
                    };
                    let is_member = sign(before).ends_with(['.', ':']) || sign(before).ends_with("->");
                    let is_called = sign(after) == "(" || sign(after).starts_with("::");
                    let is_argument = self == Syntax::Indented && depth > 0 && sign(after) == "=";
                    let declares = matches!(
                        before,
                        Some(Lexeme::Word(
                            "def"
                                | "class"
                                | "global"
                                | "nonlocal"
                                | "import"
                                | "as"
                                | "goto"
                                | "struct"
                                | "enum"
                                | "union"
                                | "namespace"
                                | "using"
                        ))
                    );
                    if is_member || is_called || is_argument || declares {
                        locals.remove(word);
                    }
                }
                _ => {}
            }
        }
        locals
    }
}

/// Words before which nothing is declared although a word follows.
const NO_TYPES: [&str; 16] = [
    "return",
    "else",
    "case",
    "goto",
    "delete",
    "new",
    "throw",
    "using",
    "namespace",
    "typename",
    "class",
    "struct",
    "enum",
    "extern",
    "sizeof",
    "operator",
];

/// Names that functions of a language with braces declare: a word after a word, before something that follows a name.
fn bound_in_braces<'a>(lexemes: &[Lexeme<'a>]) -> BTreeSet<&'a str> {
    let mut locals = BTreeSet::new();
    // Whether each open brace is that of a function, or inside of one.
    let mut braces: Vec<bool> = Vec::new();
    let mut before = None;
    for (at, lexeme) in lexemes.iter().enumerate() {
        match lexeme {
            Lexeme::Sign("{") => {
                let inside = braces.last().copied().unwrap_or(false);
                braces.push(inside || before == Some(Lexeme::Sign(")")));
            }
            Lexeme::Sign("}") => {
                braces.pop();
            }
            Lexeme::Word(name) if braces.last() == Some(&true) => {
                let typed = matches!(before, Some(Lexeme::Word(word)) if !NO_TYPES.contains(&word));
                let named = matches!(
                    lexemes.get(at + 1),
                    Some(Lexeme::Sign("=" | ";" | "[" | ":" | ","))
                );
                if typed && named {
                    locals.insert(*name);
                }
            }
            _ => {}
        }
        before = Some(*lexeme);
    }
    locals
}

/// Names that functions of a language with indentation assign, and nothing outside of functions does. Parameters are known to
/// callers.
fn bound_in_blocks<'a>(lexemes: &[Lexeme<'a>]) -> BTreeSet<&'a str> {
    let (mut locals, mut others) = (BTreeSet::new(), BTreeSet::new());
    // Whether each open block is that of a function, or inside of one.
    let mut blocks: Vec<bool> = Vec::new();
    let mut line: Vec<Lexeme<'a>> = Vec::new();
    let mut depth = 0usize;
    let mut header = "";
    for (at, lexeme) in lexemes.iter().enumerate() {
        let inside = blocks.last().copied().unwrap_or(false);
        match lexeme {
            Lexeme::Line => {
                header = line.first().map_or("", Lexeme::text);
                line.clear();
                continue;
            }
            Lexeme::Indent => blocks.push(header == "def" || inside && header != "class"),
            Lexeme::Dedent => {
                blocks.pop();
            }
            Lexeme::Sign("(" | "[" | "{") => depth += 1,
            Lexeme::Sign(")" | "]" | "}") => depth = depth.saturating_sub(1),
            Lexeme::Word(name) => {
                let assigned = line.is_empty() && matches!(lexemes.get(at + 1), Some(Lexeme::Sign("=")));
                let index = line.len() == 1 && line.first() == Some(&Lexeme::Word("for"));
                if assigned || index {
                    if inside { &mut locals } else { &mut others }.insert(*name);
                }
                let named = matches!(
                    line.first(),
                    Some(Lexeme::Word("from" | "import" | "global" | "nonlocal"))
                );
                if named || line.first() == Some(&Lexeme::Word("def")) && depth > 0 {
                    others.insert(*name);
                }
            }
            _ => {}
        }
        if !matches!(lexeme, Lexeme::Indent | Lexeme::Dedent) {
            line.push(*lexeme);
        }
    }
    &locals - &others
}

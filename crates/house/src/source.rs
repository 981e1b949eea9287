//! Rust source as tokens, without comments, literals and what only tests compile.

/// A word or a sign, with its line from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'s> {
    /// An identifier, `::`, or a single character. A literal is `"`.
    pub text: &'s str,
    /// Where it begins.
    pub line: usize,
}

/// The production code of a file.
#[derive(Clone, Debug, Default)]
pub struct Source<'s> {
    /// All but what only tests compile.
    pub tokens: Vec<Token<'s>>,
    /// Modules of other files that only tests compile: `#[cfg(test)] mod tests;`.
    pub test_modules: Vec<String>,
}

impl<'s> Source<'s> {
    /// Splits the text of a file.
    pub fn parse(text: &'s str) -> Self {
        without_tests(&tokens(text))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// All tokens of a text.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let start = at;
        let rest = &bytes[at..];
        let token = match rest[0] {
            b'\n' | b' ' | b'\t' | b'\r' => {
                at += 1;
                None
            }
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                None
            }
            b'/' if rest.starts_with(b"/*") => {
                at += block_comment(rest);
                None
            }
            b'"' => {
                at += quoted(rest, b'"');
                Some("\"")
            }
            b'\'' => {
                at += character_or_lifetime(text, at);
                Some("\"")
            }
            b':' if rest.starts_with(b"::") => {
                at += 2;
                Some("::")
            }
            byte if is_word(byte) => {
                let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
                let word = &text[at..at + length];
                let literal = ["r", "b", "br", "c", "cr"].contains(&word).then(|| prefixed(word, &rest[length..]));
                let literal = literal.flatten();
                at += length + literal.unwrap_or(0);
                Some(if literal.is_some() { "\"" } else { word })
            }
            _ => {
                at += 1;
                Some(&text[start..at])
            }
        };
        tokens.extend(token.map(|text| Token { text, line }));
        line += text[start..at].matches('\n').count();
    }
    tokens
}

/// Length of a block comment, which may hold others.
fn block_comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
        } else {
            at += 1;
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a literal in which a backslash takes what follows it.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Length of `'x'`, or of the quotation mark of a lifetime.
fn character_or_lifetime(text: &str, at: usize) -> usize {
    let mut after = text[at + 1..].chars();
    match after.next() {
        Some('\\') => quoted(&text.as_bytes()[at..], b'\''),
        Some(character) if after.next() == Some('\'') => character.len_utf8() + 2,
        _ => 1,
    }
}

/// Length of the literal behind a prefix such as `r` or `b`, if it is one: `"..."`, `'x'` or `#"..."#`.
fn prefixed(prefix: &str, bytes: &[u8]) -> Option<usize> {
    let hashes = bytes.iter().take_while(|&&byte| byte == b'#').count();
    let is_raw = prefix.ends_with('r');
    match bytes.get(hashes)? {
        b'"' if is_raw => {
            let end = [&b"\""[..], &vec![b'#'; hashes]].concat();
            let body = hashes + 1;
            let length = bytes[body..].windows(end.len()).position(|part| part == end)?;
            Some(body + length + end.len())
        }
        &quote @ (b'"' | b'\'') if hashes == 0 && !is_raw => Some(quoted(bytes, quote)),
        _ => None,
    }
}

/// The tokens without items under `#[cfg(test)]`.
fn without_tests<'s>(tokens: &[Token<'s>]) -> Source<'s> {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut source = Source::default();
    let mut at = 0;
    while at < tokens.len() {
        let is_test = tokens[at..].iter().map(|token| token.text).take(CFG_TEST.len()).eq(CFG_TEST);
        if !is_test {
            source.tokens.push(tokens[at]);
            at += 1;
            continue;
        }
        at += CFG_TEST.len();
        while tokens.get(at).is_some_and(|token| token.text == "#") {
            at += item_length(&tokens[at..], true);
        }
        let length = item_length(&tokens[at..], false);
        let words: Vec<_> = tokens[at..at + length].iter().map(|token| token.text).collect();
        if let [.., "mod", name, ";"] = words[..] {
            source.test_modules.push(name.to_owned());
        }
        at += length;
    }
    source
}

/// How many tokens an attribute or an item has: an item ends with `;`, or with its braces where it is none that goes on
/// behind them. A field, a variant or an arm ends with its comma.
fn item_length(tokens: &[Token<'_>], is_attribute: bool) -> usize {
    const GO_ON: [&str; 4] = ["use", "const", "static", "let"];
    const END: [&str; 9] = ["fn", "mod", "struct", "enum", "impl", "trait", "extern", "type", "macro_rules"];
    // `pub(crate)` and the like may stand before it, `fn` behind `const`.
    let mut words =
        tokens.iter().take(6).map(|token| token.text).skip_while(|word| !GO_ON.contains(word) && !END.contains(word));
    let keyword = words.next().unwrap_or_default();
    let goes_on = GO_ON.contains(&keyword) && !(keyword == "const" && words.next() == Some("fn"));
    let is_item = !keyword.is_empty();
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 && (is_attribute || token.text == "}" && !goes_on) {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            "," if depth == 0 && !is_item => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        Source::parse(text).tokens.iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "a /* b /* c */ d */ \"e \\\" f\" r#\"g \" h\"# b'\\'' 'i' // j\nk::l";
        assert_eq!(words(text), ["a", "\"", "\"", "\"", "\"", "k", "::", "l"]);
        assert_eq!(words("fn f<'a>(x: &'a str)").join(" "), "fn f < \" a > ( x : & \" a str )");
        assert_eq!(words(r#"r"\" a"#), ["\"", "a"]);
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<_> = tokens("a\n\"b\nc\"\n/*\n*/ d").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 5]);
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(words("#[cfg(test)] mod tests { a } b"), ["b"]);
        assert_eq!(words("#[cfg(test)] mod tests { use a; } b"), ["b"]);
        assert_eq!(words("#[cfg(test)] pub(crate) const fn a() { b } c"), ["c"]);
        assert_eq!(words("#[cfg(test)] use a::{b, c}; d"), ["d"]);
        assert_eq!(words("#[cfg(test)] #[allow(x)] fn a(b: [u8; 2]) -> C { d } e"), ["e"]);
        assert_eq!(words("#[cfg(test)] const A: [u8; 2] = { b }; c"), ["c"]);
        assert_eq!(words("struct A { #[cfg(test)] b: C, d: E }").join(" "), "struct A { d : E }");
        let source = Source::parse("#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests; mod b;");
        assert_eq!((source.test_modules, source.tokens.len()), (vec!["tests".to_owned()], 3));
    }
}

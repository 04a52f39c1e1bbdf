//! What the text of a function of JavaScript does with the names in it: what it adds to, and what it makes. Read by
//! its tokens alone, without a grammar: `orders.push(…)` adds to whatever is named `orders` there.

use std::collections::BTreeSet;

/// Methods that add to what they are called on.
const ADDS: [&str; 10] = [
    "push", "unshift", "set", "add", "append", "enqueue", "put", "insert", "splice", "fill",
];
/// Methods that add what is named by their first argument: `emitter.on("data", …)`.
const LISTENS: [&str; 7] = [
    "on",
    "once",
    "addListener",
    "prependListener",
    "prependOnceListener",
    "addEventListener",
    "subscribe",
];
/// Functions of the platform, and the type of what they make.
const MAKERS: [(&str, &str); 3] = [
    ("setInterval", "Timeout"),
    ("setTimeout", "Timeout"),
    ("setImmediate", "Immediate"),
];
/// After these a slash begins a regular expression.
const BEFORE_EXPRESSION: [&str; 8] = [
    "return", "typeof", "case", "in", "of", "delete", "void", "throw",
];
/// Calls and indices between a name and what is called on it: `byKey.get(key).push(…)`.
const CHAIN_MAX: usize = 4;
/// Tokens between two brackets that belong together, and letters of a regular expression: a text that was made for it
/// would take the square of its length.
const BETWEEN_MAX: usize = 200;

/// Names in the text of one function, without those of the functions that stand in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// What it adds to.
    pub adds: BTreeSet<String>,
    /// What it assigns to.
    pub sets: BTreeSet<String>,
    /// Types that it makes objects of.
    pub makes: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Text(&'t str),
    /// `=`, and those that end in it and assign.
    Assigns,
    Sign(u8),
}

/// The names in a text.
pub fn uses(text: &str) -> Uses {
    let tokens = tokens(text);
    let mut uses = Uses::default();
    for at in 0..tokens.len() {
        match tokens[at] {
            Token::Word(word) => uses.word(&tokens, at, word),
            Token::Assigns => uses.assignment(&tokens, at),
            _ => {}
        }
    }
    uses
}

impl Uses {
    fn word(&mut self, tokens: &[Token<'_>], at: usize, word: &str) {
        let token = |index: usize| tokens.get(index).copied();
        let is_called = token(at + 1) == Some(Token::Sign(b'('));
        let is_method = at >= 2 && tokens[at - 1] == Token::Sign(b'.');
        match (word, token(at + 1)) {
            ("new", Some(Token::Word(_))) => {
                // `new orders.Order()`
                let mut last = at + 1;
                while let (Some(Token::Sign(b'.')), Some(Token::Word(_))) =
                    (token(last + 1), token(last + 2))
                {
                    last += 2;
                }
                if let Some(Token::Word(made)) = token(last) {
                    self.makes.insert(made.to_owned());
                }
            }
            // `Buffer.from(…)`, `Buffer.alloc(…)`
            ("Buffer", Some(Token::Sign(b'.'))) => {
                self.makes.insert("Buffer".to_owned());
            }
            _ if is_called && is_method && ADDS.contains(&word) => {
                if let Some(name) = base(tokens, before_dot(tokens, at)) {
                    self.adds.insert(name.to_owned());
                }
            }
            _ if is_called && is_method && LISTENS.contains(&word) => {
                if let Some(Token::Text(event)) = token(at + 2) {
                    self.adds.insert(event.to_owned());
                }
            }
            _ if is_called => {
                let made = MAKERS.iter().filter(|(function, _)| *function == word);
                self.makes.extend(made.map(|(_, made)| (*made).to_owned()));
            }
            _ => {}
        }
    }

    fn assignment(&mut self, tokens: &[Token<'_>], at: usize) {
        let Some(end) = at.checked_sub(1) else { return };
        match tokens[end] {
            // `table[key] = …`
            Token::Sign(b']') => {
                if let Some(name) = base(tokens, Some(end)) {
                    self.adds.insert(name.to_owned());
                }
            }
            Token::Word(name) => {
                let declares = matches!(
                    end.checked_sub(1).map(|before| tokens[before]),
                    Some(Token::Word("const" | "let" | "var"))
                );
                if !declares {
                    self.sets.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
}

/// The token in front of the dot, or `?.`, of a method's name.
fn before_dot(tokens: &[Token<'_>], method: usize) -> Option<usize> {
    let before = method.checked_sub(2)?;
    match tokens[before] {
        Token::Sign(b'?') => before.checked_sub(1),
        _ => Some(before),
    }
}

/// The name that an expression starts from, by the token that ends it: `byKey` of `this.byKey.get(key)[0]`.
fn base<'t>(tokens: &[Token<'t>], end: Option<usize>) -> Option<&'t str> {
    let mut end = end?;
    for _ in 0..CHAIN_MAX {
        match tokens[end] {
            Token::Word("this" | "super") => return None,
            Token::Word(name) => return Some(name),
            Token::Sign(b']') => end = opening(tokens, end)?.checked_sub(1)?,
            Token::Sign(b')') => {
                let method = opening(tokens, end)?.checked_sub(1)?;
                let (Token::Word(_), Some(Token::Sign(b'.'))) = (
                    tokens[method],
                    method.checked_sub(1).map(|before| tokens[before]),
                ) else {
                    return None;
                };
                end = before_dot(tokens, method)?;
            }
            _ => return None,
        }
    }
    None
}

/// Where the bracket opens that closes at a token.
fn opening(tokens: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0_u32;
    for at in (0..=close).rev().take(BETWEEN_MAX) {
        match tokens[at] {
            Token::Sign(b')' | b']' | b'}') => depth += 1,
            Token::Sign(b'(' | b'[' | b'{') => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let start = at;
        match byte {
            b'/' if next == Some(b'/') => at = find(bytes, at, b"\n"),
            b'/' if next == Some(b'*') => at = find(bytes, at + 2, b"*/"),
            b'/' if begins_expression(tokens.last()) => at = end_of_expression(bytes, at),
            b'"' | b'\'' | b'`' => {
                at = end_of_text(bytes, at);
                tokens.push(Token::Text(text.get(start + 1..at - 1).unwrap_or_default()));
            }
            _ if is_letter(byte) => {
                at += bytes[at..]
                    .iter()
                    .take_while(|byte| is_letter(**byte))
                    .count();
                tokens.push(Token::Word(text.get(start..at).unwrap_or_default()));
            }
            b'=' | b'+' | b'-' | b'*' | b'%' | b'&' | b'|' | b'^' | b'<' | b'>' | b'!' | b'/'
            | b'?' => {
                let signs = bytes[at..].iter();
                let signs = signs.take_while(|byte| {
                    b"=+-*%&|^<>!?".contains(byte) || **byte == b'/' && at == start
                });
                at += signs.count().max(1);
                tokens.push(sign(&bytes[start..at.min(bytes.len())]));
            }
            _ if byte.is_ascii_whitespace() => at += 1,
            _ => {
                tokens.push(Token::Sign(byte));
                at += 1;
            }
        }
    }
    tokens
}

/// `==`, `=>` and the like are one sign that means nothing here.
fn sign(signs: &[u8]) -> Token<'static> {
    match signs {
        b"+=" | b"??=" | b"||=" | b"&&=" => Token::Assigns,
        // `=!0` assigns as well.
        [b'=', rest @ ..] if !matches!(rest.first(), Some(b'=' | b'>')) => Token::Assigns,
        [one] => Token::Sign(*one),
        _ => Token::Sign(b'='),
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#') || byte >= 0x80
}

fn begins_expression(before: Option<&Token<'_>>) -> bool {
    match before {
        None | Some(Token::Assigns) => true,
        Some(Token::Word(word)) => BEFORE_EXPRESSION.contains(word),
        Some(Token::Sign(sign)) => !matches!(sign, b')' | b']' | b'}'),
        Some(Token::Text(_)) => false,
    }
}

/// Behind what is found, or the end.
fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let found = rest.windows(what.len()).position(|window| window == what);
    found.map_or(bytes.len(), |found| from + found + what.len())
}

/// Behind the quotation mark that ends it.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        at += if byte == b'\\' { 2 } else { 1 };
        if byte == bytes[start] {
            return at;
        }
    }
    bytes.len()
}

fn end_of_expression(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut is_class) = (start + 1, false);
    while let Some(&byte) = bytes.get(at).filter(|_| at < start + BETWEEN_MAX) {
        at += if byte == b'\\' { 2 } else { 1 };
        match byte {
            b'[' => is_class = true,
            b']' => is_class = false,
            b'/' if !is_class => return at,
            // No expression has a line's end in it: it was a division.
            b'\n' => return start + 1,
            _ => {}
        }
    }
    start + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &BTreeSet<String>) -> Vec<&str> {
        of.iter().map(String::as_str).collect()
    }

    #[test]
    fn what_is_added_to_is_named_wherever_the_call_stands() {
        for (text, expected) in [
            ("(order) { orders.push(order); }", vec!["orders"]),
            (
                "(key, row) { this.byKey.get(key).push(row) }",
                vec!["byKey"],
            ),
            ("() { table[id(1, [2])] = {}; }", vec!["table"]),
            (
                "() { lists[0]?.unshift(1); this.#seen.add(2) }",
                vec!["#seen", "lists"],
            ),
            (
                "() { emitter.on('tick', () => {}); emitter.on(name, f) }",
                vec!["tick"],
            ),
            // In texts, comments and regular expressions nothing is called.
            (
                "() { log('orders.push(1)'); /* orders.push(2) */ x = /a[/]orders.push(/.test(y) }",
                vec![],
            ),
            ("() { // orders.push(1)\n a.add(b / c / d) }", vec!["a"]),
            // Of a call without a name, of an own method, of what only compares.
            (
                "() { all().push(1); this.push(2); table[1] == 2; push(3) }",
                vec![],
            ),
        ] {
            assert_eq!(names(&uses(text).adds), expected, "{text}");
        }
    }

    #[test]
    fn assignments_and_what_is_made() {
        let of = uses(
            "() { head = { next: head }; const last=!0; this.tail = new lists.Node(new Set()); n += 1 }",
        );
        assert_eq!(names(&of.sets), ["head", "n", "tail"]);
        assert_eq!(names(&of.makes), ["Node", "Set"]);
        let of = uses("() { timer = setInterval(() => Buffer.alloc(9), 5); obj.setTimeout(3) }");
        assert_eq!(names(&of.makes), ["Buffer", "Timeout"]);
    }

    #[test]
    fn any_text_ends() {
        let mut random = testkit::Random::new(7);
        let parts = [
            "'", "\"", "`", "/", "/*", "\\", "[", "]", "(", ")", "=", "push", ".", "a", "é", "\n",
            "new ", "?.",
        ];
        for _ in 0..20_000 {
            let count = random.number() % 12;
            let text: String = (0..count)
                .map(|_| parts[random.number() as usize % parts.len()])
                .collect();
            uses(&text);
        }
    }

    /// In seconds, were it the square of their length.
    #[test]
    fn texts_that_were_made_to_last_are_read_once() {
        for part in ["/[", "a).push(", "((", "a[", "'\\", "new a."] {
            let text = part.repeat(400_000 / part.len());
            uses(&text);
        }
    }
}

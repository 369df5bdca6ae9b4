//! Lua's patterns, matched with bounded work.
//!
//! In: a pattern, a text, and who says when the time is over. Out: where it matches, and what it captured. A pattern is read into
//! items first; matching tries them in order and goes back where one does not fit. Work is counted, so that a pattern that would
//! take minutes is ended; depth grows with the items of a pattern alone, and those are limited.

/// More items than a pattern needs that a person wrote.
const MOST_ITEMS: usize = 500;
/// As Lua has it.
const MOST_CAPTURES: usize = 32;
/// Tries between two looks at the time.
const TRIES: u32 = 10_000;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is none.
    #[error("malformed pattern ({0})")]
    Malformed(&'static str),
    /// The time is over.
    #[error("context deadline exceeded")]
    Over,
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    fn of(test: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::default();
        (0..=u8::MAX).filter(|byte| test(*byte)).for_each(|byte| set.add(byte));
        set
    }

    fn join(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// What `%letter` stands for.
    fn class(letter: u8) -> Self {
        let set = match letter.to_ascii_lowercase() {
            b'a' => Self::of(|byte| byte.is_ascii_alphabetic()),
            b'c' => Self::of(|byte| byte.is_ascii_control()),
            b'd' => Self::of(|byte| byte.is_ascii_digit()),
            b'l' => Self::of(|byte| byte.is_ascii_lowercase()),
            b'p' => Self::of(|byte| byte.is_ascii_punctuation()),
            b's' => Self::of(|byte| byte == b' ' || (9..=13).contains(&byte)),
            b'u' => Self::of(|byte| byte.is_ascii_uppercase()),
            b'w' => Self::of(|byte| byte.is_ascii_alphanumeric()),
            b'x' => Self::of(|byte| byte.is_ascii_hexdigit()),
            b'z' => Self::of(|byte| byte == 0),
            _ => return Self::of(|byte| byte == letter),
        };
        if letter.is_ascii_uppercase() { set.inverted() } else { set }
    }
}

/// How often a set is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Once,
    Maybe,
    Most(usize),
    Least,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Set(Set, Times),
    Open,
    Position,
    Close,
    Balanced(u8, u8),
    Frontier(Set),
    Again(usize),
    End,
}

/// A pattern, read.
pub struct Pattern {
    items: Vec<Item>,
    anchored: bool,
}

/// What a part of a pattern captured: a stretch of the text, or a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// From, and up to, but without.
    Text(usize, usize),
    /// Before this byte.
    Place(usize),
}

/// Where a pattern matches.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The first byte.
    pub from: usize,
    /// Behind the last byte.
    pub to: usize,
    /// What its parts captured.
    pub captures: Vec<Capture>,
}

/// Reads the pattern from left to right.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.rest.first() == Some(&byte);
        if eaten {
            self.rest = &self.rest[1..];
        }
        eaten
    }

    fn escaped(&mut self) -> Result<u8, PatternError> {
        self.next().ok_or(PatternError::Malformed("ends with '%'"))
    }

    /// What stands in brackets, behind the opening one.
    fn set(&mut self) -> Result<Set, PatternError> {
        const OPEN: PatternError = PatternError::Malformed("missing ']'");
        let inverted = self.eat(b'^');
        let mut set = Set::default();
        let mut first = true;
        loop {
            let byte = self.next().ok_or(OPEN)?;
            match byte {
                b']' if !first => break,
                b'%' => set.join(Set::class(self.next().ok_or(OPEN)?)),
                low => match self.rest {
                    [b'-', high, ..] if *high != b']' => {
                        (low..=*high).for_each(|byte| set.add(byte));
                        self.rest = &self.rest[2..];
                    }
                    _ => set.add(low),
                },
            }
            first = false;
        }
        Ok(if inverted { set.inverted() } else { set })
    }

    fn repeated(&mut self, set: Set) -> Item {
        let times = match self.rest.first() {
            Some(b'?') => Times::Maybe,
            Some(b'*') => Times::Most(0),
            Some(b'+') => Times::Most(1),
            Some(b'-') => Times::Least,
            _ => return Item::Set(set, Times::Once),
        };
        self.rest = &self.rest[1..];
        Item::Set(set, times)
    }

    fn special(&mut self) -> Result<Item, PatternError> {
        match self.escaped()? {
            b'b' => match (self.next(), self.next()) {
                (Some(open), Some(close)) => Ok(Item::Balanced(open, close)),
                _ => Err(PatternError::Malformed("missing arguments to '%b'")),
            },
            b'f' if self.eat(b'[') => Ok(Item::Frontier(self.set()?)),
            b'f' => Err(PatternError::Malformed("missing '[' after '%f'")),
            digit @ b'1'..=b'9' => Ok(Item::Again(usize::from(digit - b'1'))),
            b'0' => Err(PatternError::Malformed("invalid capture index")),
            letter => Ok(self.repeated(Set::class(letter))),
        }
    }

    fn item(&mut self, byte: u8) -> Result<Item, PatternError> {
        Ok(match byte {
            b'(' if self.eat(b')') => Item::Position,
            b'(' => Item::Open,
            b')' => Item::Close,
            b'$' if self.rest.is_empty() => Item::End,
            b'%' => self.special()?,
            b'[' => {
                let set = self.set()?;
                self.repeated(set)
            }
            b'.' => self.repeated(Set::default().inverted()),
            byte => self.repeated(Set::of(|other| other == byte)),
        })
    }
}

impl Pattern {
    /// Reads a pattern. `^` at its start is special where `anchors` says so.
    ///
    /// # Errors
    /// It is malformed, or has too many items.
    pub fn read(pattern: &[u8], anchors: bool) -> Result<Self, PatternError> {
        let mut reader = Reader { rest: pattern };
        let anchored = anchors && reader.eat(b'^');
        let (mut items, mut open, mut captures) = (Vec::new(), 0_usize, 0_usize);
        while let Some(byte) = reader.next() {
            let item = reader.item(byte)?;
            match item {
                Item::Open => (open, captures) = (open + 1, captures + 1),
                Item::Position => captures += 1,
                Item::Close if open == 0 => return Err(PatternError::Malformed("invalid pattern capture")),
                Item::Close => open -= 1,
                Item::Again(which) if which >= captures => {
                    return Err(PatternError::Malformed("invalid capture index"));
                }
                _ => {}
            }
            if captures > MOST_CAPTURES || items.len() == MOST_ITEMS {
                return Err(PatternError::Malformed("it is too complex"));
            }
            items.push(item);
        }
        if open > 0 {
            return Err(PatternError::Malformed("unfinished capture"));
        }
        Ok(Self { items, anchored })
    }

    /// Finds the first match at byte `from` or behind it.
    ///
    /// # Errors
    /// The time is over.
    pub fn find(
        &self,
        text: &[u8],
        from: usize,
        over: &dyn Fn() -> bool,
    ) -> Result<Option<Found>, PatternError> {
        let mut run = Run { items: &self.items, text, over, tries: 0, captures: Vec::new() };
        let last = if self.anchored { from } else { text.len() };
        for start in from..=last {
            run.captures.clear();
            if let Some(to) = run.go(0, start)? {
                let captures = run.captures.iter().map(|capture| capture.0).collect();
                return Ok(Some(Found { from: start, to, captures }));
            }
        }
        Ok(None)
    }
}

/// A match being tried. Beside each capture stands whether it is still open.
struct Run<'a> {
    items: &'a [Item],
    text: &'a [u8],
    over: &'a dyn Fn() -> bool,
    tries: u32,
    captures: Vec<(Capture, bool)>,
}

impl Run<'_> {
    fn tick(&mut self) -> Result<(), PatternError> {
        self.tries += 1;
        if self.tries == TRIES {
            self.tries = 0;
            if (self.over)() {
                return Err(PatternError::Over);
            }
        }
        Ok(())
    }

    fn byte_in_set(&self, set: &Set, at: usize) -> bool {
        self.text.get(at).is_some_and(|byte| set.has(*byte))
    }

    /// Matches the items from `item` on at byte `at`; the end of the match.
    fn go(&mut self, mut item: usize, mut at: usize) -> Result<Option<usize>, PatternError> {
        loop {
            self.tick()?;
            let Some(now) = self.items.get(item) else { return Ok(Some(at)) };
            item += 1;
            let next = match *now {
                Item::Set(set, Times::Once) => self.byte_in_set(&set, at).then_some(at + 1),
                Item::Set(set, Times::Maybe) if self.byte_in_set(&set, at) => {
                    if let Some(end) = self.go(item, at + 1)? {
                        return Ok(Some(end));
                    }
                    Some(at)
                }
                Item::Set(_, Times::Maybe) => Some(at),
                Item::Set(set, Times::Most(least)) => return self.most(&set, least, item, at),
                Item::Set(set, Times::Least) => return self.least(&set, item, at),
                Item::Open => return self.captured((Capture::Text(at, at), true), item, at),
                Item::Position => return self.captured((Capture::Place(at), false), item, at),
                Item::Close => return self.close(item, at),
                Item::Balanced(open, close) => self.balanced(open, close, at)?,
                Item::Frontier(set) => self.frontier(&set, at).then_some(at),
                Item::Again(which) => self.again(which, at),
                Item::End => (at == self.text.len()).then_some(at),
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
    }

    fn most(
        &mut self,
        set: &Set,
        least: usize,
        item: usize,
        at: usize,
    ) -> Result<Option<usize>, PatternError> {
        let mut count = 0;
        while self.byte_in_set(set, at + count) {
            self.tick()?;
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(end) = self.go(item, at + count)? {
                return Ok(Some(end));
            }
            let Some(less) = count.checked_sub(1) else { return Ok(None) };
            count = less;
        }
    }

    fn least(&mut self, set: &Set, item: usize, mut at: usize) -> Result<Option<usize>, PatternError> {
        loop {
            if let Some(end) = self.go(item, at)? {
                return Ok(Some(end));
            }
            if !self.byte_in_set(set, at) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn captured(
        &mut self,
        capture: (Capture, bool),
        item: usize,
        at: usize,
    ) -> Result<Option<usize>, PatternError> {
        self.captures.push(capture);
        let height = self.captures.len();
        let end = self.go(item, at)?;
        if end.is_none() {
            self.captures.truncate(height - 1);
        }
        Ok(end)
    }

    fn close(&mut self, item: usize, at: usize) -> Result<Option<usize>, PatternError> {
        let Some(which) = self.captures.iter().rposition(|(_, open)| *open) else { return Ok(None) };
        let before = self.captures[which];
        if let Capture::Text(from, _) = before.0 {
            self.captures[which] = (Capture::Text(from, at), false);
        }
        let end = self.go(item, at)?;
        if end.is_none() {
            self.captures[which] = before;
        }
        Ok(end)
    }

    fn balanced(&mut self, open: u8, close: u8, at: usize) -> Result<Option<usize>, PatternError> {
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.tick()?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn frontier(&self, set: &Set, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|index| self.text.get(index)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        !set.has(before) && set.has(here)
    }

    /// The text of an earlier capture once more.
    fn again(&self, which: usize, at: usize) -> Option<usize> {
        let Some((Capture::Text(from, to), false)) = self.captures.get(which).copied() else { return None };
        let length = to - from;
        (self.text.get(at..at + length)? == &self.text[from..to]).then_some(at + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, pattern: &str) -> Option<Vec<String>> {
        let pattern = Pattern::read(pattern.as_bytes(), true).unwrap();
        let found = pattern.find(text.as_bytes(), 0, &|| false).unwrap()?;
        let mut parts = vec![text[found.from..found.to].to_owned()];
        parts.extend(found.captures.iter().map(|capture| match capture {
            Capture::Text(from, to) => text[*from..*to].to_owned(),
            Capture::Place(at) => (at + 1).to_string(),
        }));
        Some(parts)
    }

    #[test]
    fn patterns_match_as_in_lua() {
        let table: [(&str, &str, Option<&[&str]>); 22] = [
            ("hello", "l+", Some(&["ll"])),
            ("  trim  ", "^%s*(.-)%s*$", Some(&["  trim  ", "trim"])),
            ("k8s-12", "(%a+)(%d+)", Some(&["k8", "k", "8"])),
            ("abc", "b()", Some(&["b", "3"])),
            ("abc", "^x", None),
            ("a.b", "%.", Some(&["."])),
            ("f(a(b)c)d", "%b()", Some(&["(a(b)c)"])),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some(&["THE"])),
            ("\"it's\"", "([\"'])(.-)%1", Some(&["\"it's\"", "\"", "it's"])),
            ("a-b", "[a%-]+", Some(&["a-"])),
            ("]x", "[]]", Some(&["]"])),
            ("a-", "[a-]+", Some(&["a-"])),
            ("xyz", "[^x]+", Some(&["yz"])),
            ("abc", "a?b?c?d?", Some(&["abc"])),
            ("aaab", "a-b", Some(&["aaab"])),
            ("", "", Some(&[""])),
            ("abc", "$", Some(&[""])),
            ("a$c", "$c", Some(&["$c"])),
            ("key=value", "(%w+)=(%w+)", Some(&["key=value", "key", "value"])),
            ("2024-01", "%d%d%d%d%-%d%d", Some(&["2024-01"])),
            ("aXb", "%u", Some(&["X"])),
            ("((a))", "((%(a%)))", Some(&["(a)", "(a)", "(a)"])),
        ];
        for (text, pattern, wanted) in table {
            let wanted = wanted.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
            assert_eq!(found(text, pattern), wanted, "{text:?} {pattern:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let many = "a?".repeat(501);
        for pattern in ["%", "[a", "(", ")", "%b", "%bx", "%f", "%1", "(%1", "[%", &many, &"()".repeat(33)] {
            assert!(Pattern::read(pattern.as_bytes(), true).is_err(), "{pattern}");
        }
        assert_eq!(found("abab", "(ab)%1"), Some(vec!["abab".to_owned(), "ab".to_owned()]));
    }

    #[test]
    fn a_pattern_that_would_take_for_ever_is_ended() {
        let pattern = Pattern::read(&[b".-".repeat(20), b"x".to_vec()].concat(), true).unwrap();
        let looks = std::cell::Cell::new(0);
        let over = || {
            looks.set(looks.get() + 1);
            looks.get() > 50
        };
        assert_eq!(pattern.find(&b"a".repeat(10_000), 0, &over), Err(PatternError::Over));
        let deep = Pattern::read(&b"a?".repeat(500), true).unwrap();
        assert!(deep.find(&b"a".repeat(1_000_000), 0, &|| false).unwrap().is_some());
    }
}

//! What is wrong with an expression, as cel-go lays it out: in the order of the source, each with the line it stands in.
//!
//! In: places and messages. Out: the text.

/// How long a message about an expression gets before nothing more is added to it, in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 64 << 10;

/// The most that is told.
const MOST: usize = 100;

/// What was found so far.
pub(super) struct Report<'a> {
    source: &'a str,
    found: Vec<(usize, String)>,
    count: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Report { source, found: Vec::new(), count: 0 }
    }

    pub(super) fn add(&mut self, at: usize, message: String) {
        self.count = self.count.saturating_add(1);
        if self.count <= MOST {
            self.found.push((at, message));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Tells once more what was found since there were `from`.
    pub(super) fn repeat(&mut self, from: usize) {
        for (at, message) in self.found.get(from..).unwrap_or_default().to_vec() {
            self.add(at, message);
        }
    }

    /// The text; `None` where nothing is wrong.
    pub(super) fn text(&mut self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        self.found.sort_by_key(|(at, _)| *at);
        let mut told = 0;
        let mut text = String::new();
        for (at, message) in &self.found {
            // Each shows its line, which may be long.
            if text.len() > LONGEST_MESSAGE {
                break;
            }
            text.push_str(if told > 0 { "\n" } else { "" });
            text.push_str(&self.one(*at, message));
            told += 1;
        }
        if self.count > told {
            text.push_str(&format!("\n{} more errors were truncated", self.count - told));
        }
        Some(text)
    }

    fn one(&self, at: usize, message: &str) -> String {
        let before = self.source.get(..at).unwrap_or(self.source);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let text = self.source[start..].split('\n').next().unwrap_or("").replace('\t', " ");
        let column = before[start..].chars().count();
        let wide = |c: char| c.len_utf8() > 1;
        let dots: String =
            text.chars().take(column).map(|c| if wide(c) { '\u{ff0e}' } else { '.' }).collect();
        let mark = if text.chars().nth(column).is_some_and(wide) { '\u{ff3e}' } else { '^' };
        format!("ERROR: <input>:{}:{}: {message}\n | {text}\n | {dots}{mark}", line + 1, column + 1)
    }
}

//! Templates of JSONPath, as kubectl's: text, and in braces what is taken from a value.
//!
//! In: a template such as `{.jobID}` or `{range .items[*]}{.name};{end}`, and a value. Out: text; several results of one path with a space
//! between. Whoever writes a policy writes the template, and a site writes the value: both the work and the text have an end.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// Values that the templates of one binding look at together, at most.
const LOOKS: usize = 100_000;
/// Bytes of text that one template makes, at most.
const LONGEST: usize = 4096;
/// Ranges within ranges, and filters within filters, at most.
const DEEPEST: usize = 8;

/// Why a template cannot be read, or has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A brace is not closed.
    #[error("a brace is not closed")]
    Unclosed,
    /// It is no path.
    #[error("{0:?} is no JSONPath")]
    Syntax(String),
    /// There is no such field.
    #[error("{0} is not found")]
    NotFound(String),
    /// There is no such element.
    #[error("there is no element {0} in a list of {1}")]
    OutOfBounds(i64, usize),
    /// Elements are asked for where there is no list.
    #[error("there is no list to take elements from")]
    NoList,
    /// It looks at too many values, or makes too long a text.
    #[error("it takes too much: {LOOKS} values are looked at and {LONGEST} bytes written, at most")]
    TooMuch,
}

/// A template that was read.
pub(super) struct Template(Vec<Part>);

enum Part {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Part>),
}

enum Step {
    Field(String),
    Fields(Vec<String>),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    /// Everything below, itself included.
    Below,
    Where(Vec<Step>, Comparison),
}

enum Comparison {
    IsThere,
    To(&'static str, Value),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn parse(text: &str) -> Result<Template, PathError> {
        let mut rest = text;
        let (parts, ended) = parts(&mut rest, 0)?;
        if ended { Err(PathError::Syntax("{end}".to_owned())) } else { Ok(Template(parts)) }
    }

    /// What it makes of a value; what it looks at is taken from `looks`.
    ///
    /// # Errors
    /// The value has not what it names, or it is too much.
    pub(super) fn text(&self, value: &Value, looks: &mut Looks) -> Result<String, PathError> {
        let mut out = Out { text: String::new(), looks };
        out.parts(&self.0, value)?;
        Ok(out.text)
    }
}

/// Reads parts up to the end of the text or of the range, and says which.
fn parts(rest: &mut &str, depth: usize) -> Result<(Vec<Part>, bool), PathError> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
        if !before.is_empty() {
            all.push(Part::Text(before.to_owned()));
        }
        if before.len() == rest.len() {
            *rest = "";
            break;
        }
        let (inner, after) = action(after)?;
        *rest = after;
        match inner.trim() {
            "end" => return Ok((all, true)),
            inner if inner.starts_with("range ") && depth < DEEPEST => {
                let steps = path(inner["range ".len()..].trim(), 0)?;
                let (body, ended) = parts(rest, depth + 1)?;
                if !ended {
                    return Err(PathError::Unclosed);
                }
                all.push(Part::Range(steps, body));
            }
            inner => match quoted(inner) {
                Some(text) => all.push(Part::Text(text)),
                None => all.push(Part::Path(path(inner, 0)?)),
            },
        }
    }
    Ok((all, false))
}

/// What stands up to the closing brace, quotes passed over, and what follows.
fn action(text: &str) -> Result<(&str, &str), PathError> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '}') => return Ok((&text[..at], &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    Err(PathError::Unclosed)
}

fn quoted(text: &str) -> Option<String> {
    let inner = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    inner.map(str::to_owned)
}

/// Reads a path; `depth`: how many filters it is in.
fn path(text: &str, depth: usize) -> Result<Vec<Step>, PathError> {
    let wrong = || PathError::Syntax(text.to_owned());
    if depth > DEEPEST {
        return Err(wrong());
    }
    let mut letters = text.trim_start_matches(['$', '@']).chars().peekable();
    let mut steps = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '.' => {
                if letters.next_if_eq(&'.').is_some() {
                    steps.push(Step::Below);
                }
                match field(&mut letters).as_str() {
                    "" => {}
                    "*" => steps.push(Step::All),
                    name => steps.push(Step::Field(name.to_owned())),
                }
            }
            '[' => steps.push(bracket(&enclosed(&mut letters).ok_or_else(wrong)?, depth).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        }
    }
    Ok(steps)
}

fn field(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut name = String::new();
    while let Some(letter) = letters.next_if(|letter| !matches!(letter, '.' | '[')) {
        match letter {
            '\\' => name.extend(letters.next()),
            letter => name.push(letter),
        }
    }
    name.trim_end().to_owned()
}

/// What stands up to the bracket that closes, quotes passed over.
fn enclosed(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let (mut inner, mut quote, mut depth) = (String::new(), None, 0);
    for letter in letters {
        match (quote, letter) {
            (None, ']') if depth == 0 => return Some(inner),
            (None, ']') => depth -= 1,
            (None, '[') => depth += 1,
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
        inner.push(letter);
    }
    None
}

fn bracket(inner: &str, depth: usize) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return condition(filter, depth + 1);
    }
    if let Some(names) = inner.split(',').map(|name| quoted(name.trim())).collect::<Option<Vec<_>>>() {
        return Some(Step::Fields(names));
    }
    match inner.split_once(':') {
        Some((from, to)) => {
            let bound = |text: &str| match text.trim() {
                "" => Some(None),
                number => number.parse().ok().map(Some),
            };
            Some(Step::Slice(bound(from)?, bound(to)?))
        }
        None => inner.parse().ok().map(Step::Index),
    }
}

fn condition(filter: &str, depth: usize) -> Option<Step> {
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        if let Some((left, right)) = filter.split_once(operator) {
            let right = right.trim();
            let wanted = quoted(right).map(Value::String).or_else(|| serde_json::from_str(right).ok())?;
            return Some(Step::Where(path(left.trim(), depth).ok()?, Comparison::To(operator, wanted)));
        }
    }
    Some(Step::Where(path(filter.trim(), depth).ok()?, Comparison::IsThere))
}

/// How much may still be looked at: values, elements that a step takes, and parts of templates alike.
pub(super) struct Looks(usize);

impl Default for Looks {
    fn default() -> Self {
        Looks(LOOKS)
    }
}

impl Looks {
    fn take(&mut self, some: usize) -> Result<(), PathError> {
        self.0 = self.0.checked_sub(some).ok_or(PathError::TooMuch)?;
        Ok(())
    }
}

/// The text so far.
struct Out<'l> {
    text: String,
    looks: &'l mut Looks,
}

impl Out<'_> {
    fn parts(&mut self, parts: &[Part], value: &Value) -> Result<(), PathError> {
        for part in parts {
            self.looks.take(1)?;
            match part {
                Part::Text(text) => self.write(text)?,
                Part::Path(steps) => {
                    let found = self.find(steps, value)?;
                    let texts: Vec<String> = found.into_iter().map(shown).collect();
                    self.write(&texts.join(" "))?;
                }
                Part::Range(steps, body) => {
                    for element in self.find(steps, value)? {
                        self.parts(body, element)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), PathError> {
        if self.text.len() + text.len() > LONGEST {
            return Err(PathError::TooMuch);
        }
        self.text.push_str(text);
        Ok(())
    }

    fn find<'v>(&mut self, steps: &[Step], value: &'v Value) -> Result<Vec<&'v Value>, PathError> {
        let mut found = vec![value];
        let mut below = false;
        for step in steps {
            let before = found.len();
            let mut next = Vec::new();
            for value in found {
                self.step(step, value, &mut next)?;
            }
            if let Step::Field(name) = step
                && next.is_empty()
                && before > 0
                && !below
            {
                return Err(PathError::NotFound(name.clone()));
            }
            below = matches!(step, Step::Below);
            found = next;
        }
        Ok(found)
    }

    fn step<'v>(
        &mut self,
        step: &Step,
        value: &'v Value,
        into: &mut Vec<&'v Value>,
    ) -> Result<(), PathError> {
        let before = into.len();
        self.looks.take(1)?;
        match step {
            Step::Field(name) => into.extend(value.get(name)),
            Step::Fields(names) => {
                for name in names {
                    into.push(value.get(name).ok_or_else(|| PathError::NotFound(name.clone()))?);
                }
            }
            Step::Index(index) => {
                let list = value.as_array().ok_or(PathError::NoList)?;
                let out = || PathError::OutOfBounds(*index, list.len());
                let at = if *index < 0 { list.len() as i64 + index } else { *index };
                into.push(usize::try_from(at).ok().and_then(|at| list.get(at)).ok_or_else(out)?);
            }
            Step::Slice(from, to) => into.extend(slice(value, *from, *to)?),
            Step::All => inside(value, into),
            Step::Below => self.below(value, into)?,
            Step::Where(steps, comparison) => {
                for element in value.as_array().ok_or(PathError::NoList)? {
                    self.looks.take(1)?;
                    let left = self.find(steps, element).unwrap_or_default();
                    if left.first().is_some_and(|left| comparison.holds(left)) {
                        into.push(element);
                    }
                }
            }
        }
        self.looks.take(into.len() - before)
    }

    fn below<'v>(&mut self, value: &'v Value, into: &mut Vec<&'v Value>) -> Result<(), PathError> {
        let mut next = vec![value];
        while let Some(value) = next.pop() {
            self.looks.take(1)?;
            into.push(value);
            let mut children = Vec::new();
            inside(value, &mut children);
            next.extend(children.into_iter().rev());
        }
        Ok(())
    }
}

fn inside<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => into.extend(items),
        Value::Object(fields) => into.extend(fields.values()),
        _ => {}
    }
}

fn slice(value: &Value, from: Option<i64>, to: Option<i64>) -> Result<&[Value], PathError> {
    let list = value.as_array().ok_or(PathError::NoList)?;
    let place = |index: i64| {
        let at = if index < 0 { list.len() as i64 + index } else { index };
        usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(list.len())
    };
    let (from, to) = (place(from.unwrap_or(0)), to.map_or(list.len(), place));
    Ok(list.get(from..to).unwrap_or_default())
}

impl Comparison {
    fn holds(&self, left: &Value) -> bool {
        let Comparison::To(operator, right) = self else { return true };
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right)),
        };
        match *operator {
            "==" => left == right || order.is_some_and(std::cmp::Ordering::is_eq),
            "!=" => left != right && !order.is_some_and(std::cmp::Ordering::is_eq),
            "<" => order.is_some_and(std::cmp::Ordering::is_lt),
            "<=" => order.is_some_and(std::cmp::Ordering::is_le),
            ">" => order.is_some_and(std::cmp::Ordering::is_gt),
            _ => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

/// A result as text: whole numbers by all their digits, so that they are as they were written, and may be a label.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_take_too_much_is_refused() {
        let wide = json!({"l": vec![json!({"k": "v"}); 60_000]});
        let text = |template: &str| {
            Template::parse(template).and_then(|template| template.text(&wide, &mut Looks::default()))
        };
        // What an element costs that a range has nothing to say of.
        assert_eq!(text(&"{range .l[*]}{end}".repeat(3)), Err(PathError::TooMuch));
        assert_eq!(text("{range .l[*]}{end}"), Ok(String::new()));
        assert_eq!(text("{..k}"), Err(PathError::TooMuch));
        assert_eq!(text("{.l[*].k}"), Err(PathError::TooMuch));
        assert_eq!(text("{.l[0].k}"), Ok("v".to_owned()));
        let deep = "{range .l[*]}".repeat(9);
        assert!(matches!(Template::parse(&deep), Err(PathError::Syntax(_))));
        assert_eq!(text("{range .l[0:2]}{.k}"), Err(PathError::Unclosed));
        let filters = |times: usize| format!("{{{}{}}}", ".l[?(".repeat(times), ")]".repeat(times));
        assert!(Template::parse(&filters(8)).is_ok());
        assert!(matches!(Template::parse(&filters(9)), Err(PathError::Syntax(_))));
        assert!(matches!(Template::parse(&filters(100_000)), Err(PathError::Syntax(_))));
    }
}

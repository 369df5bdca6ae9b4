//! The part of JSONPath that printer columns use: fields, quoted fields, indexes, `[*]`, and equality filters.
//!
//! In: a path's text, or an object and how many steps may be taken. Out: the parsed path, or `None` for syntax that is not known here; the
//! first value that it finds, or `None` where there is none or the steps are used up.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.path=="text")]`: the path and the text, and whether they must be equal.
    Where(Vec<Step>, Value, bool),
}

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

impl JsonPath {
    /// Reads a path; `None` for syntax outside the part that columns use.
    pub fn parse(text: &str) -> Option<JsonPath> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let mut chars = text.chars().collect::<Vec<_>>().into_iter().peekable();
        let mut steps = Vec::new();
        while let Some(c) = chars.next() {
            match c {
                '.' => {
                    let mut field = String::new();
                    while let Some(next) = chars.peek().copied() {
                        match next {
                            '.' | '[' => break,
                            '\\' => {
                                chars.next();
                                field.push(chars.next()?);
                            }
                            _ => field.extend(chars.next()),
                        }
                    }
                    match field.as_str() {
                        "" if chars.peek() == Some(&'[') || chars.peek().is_none() => {}
                        "" => return None,
                        "*" => steps.push(Step::All),
                        _ => steps.push(Step::Field(field)),
                    }
                }
                '[' => {
                    let (mut inner, mut quoted) = (String::new(), None);
                    loop {
                        let next = chars.next()?;
                        match quoted {
                            None if next == ']' => break,
                            None if next == '"' || next == '\'' => quoted = Some(next),
                            Some(quote) if quote == next => quoted = None,
                            _ => {}
                        }
                        inner.push(next);
                    }
                    steps.push(bracket(&inner)?);
                }
                _ => return None,
            }
        }
        Some(JsonPath { steps })
    }

    /// The first value the path finds, in so many steps; what is looked at is taken off.
    pub fn first<'a>(&self, object: &'a Value, steps: &mut usize) -> Option<&'a Value> {
        first(&self.steps, object, steps)
    }
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        let (left, right, equal) = match filter.split_once("==") {
            Some((left, right)) => (left, right, true),
            None => filter.split_once("!=").map(|(left, right)| (left, right, false))?,
        };
        let path = JsonPath::parse(left.trim().strip_prefix('@')?)?;
        return Some(Step::Where(path.steps, literal(right.trim())?, equal));
    }
    match literal(inner)? {
        Value::String(field) => Some(Step::Field(field)),
        Value::Number(index) => Some(Step::Index(index.as_i64()?)),
        _ => None,
    }
}

fn literal(text: &str) -> Option<Value> {
    if let Some(quoted) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Some(Value::String(quoted.to_owned()));
    }
    serde_json::from_str(text).ok()
}

fn first<'a>(path: &[Step], object: &'a Value, left: &mut usize) -> Option<&'a Value> {
    *left = left.checked_sub(1)?;
    let Some((step, rest)) = path.split_first() else { return Some(object) };
    match step {
        Step::Field(name) => first(rest, object.get(name)?, left),
        Step::Index(index) => {
            let list = object.as_array()?;
            let at = if *index < 0 { list.len() as i64 + index } else { *index };
            first(rest, list.get(usize::try_from(at).ok()?)?, left)
        }
        Step::All => match object {
            Value::Array(items) => items.iter().find_map(|item| first(rest, item, left)),
            Value::Object(fields) => fields.values().find_map(|field| first(rest, field, left)),
            _ => None,
        },
        Step::Where(inner, wanted, equal) => object.as_array()?.iter().find_map(|item| {
            let found = first(inner, item, left)?;
            ((found == wanted) == *equal).then(|| first(rest, item, left))?
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::JsonPath;

    #[test]
    fn columns_elements_and_filters_are_not_multiplied() {
        let object = json!({"a": vec![json!({"k": 1}); 50_000]});
        let first = |text: &str, mut steps: usize| {
            let found = JsonPath::parse(text).unwrap().first(&object, &mut steps).is_some();
            (found, steps)
        };
        assert_eq!(first(".a[*].k", 100), (true, 96), "no more is looked at than is shown");
        assert_eq!(first(".a[?(@.k==2)].k", 1_000), (false, 0));
    }
}

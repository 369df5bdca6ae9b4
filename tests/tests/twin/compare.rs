//! Where two normalised answers differ, in few lines.

use serde_json::Value;

/// Lines shown of one difference.
const LINES: usize = 14;

/// Characters shown of one value.
const WIDTH: usize = 1400;

/// What differs, `kube` first; `None` where nothing does.
pub fn differ(truth: &Value, hub: &Value) -> Option<String> {
    let mut lines = Vec::new();
    walk("", truth, hub, &mut lines);
    if lines.is_empty() {
        return None;
    }
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if more > 0 {
        lines.push(format!("    and {more} more"));
    }
    Some(lines.join("\n"))
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    if text.chars().count() > WIDTH { text.chars().take(WIDTH).collect::<String>() + "…" } else { text }
}

fn walk(path: &str, truth: &Value, hub: &Value, lines: &mut Vec<String>) {
    match (truth, hub) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let at = format!("{path}/{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => walk(&at, a, b, lines),
                    (a, b) => note(&at, a, b, lines),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{path}/{index}"), a, b, lines);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let (a, b) = (without(a, b), without(b, a));
            note(path, Some(&a), Some(&b), lines);
        }
        (a, b) if a == b => {}
        (a, b) => note(path, Some(a), Some(b), lines),
    }
}

/// The items of a list that another of other length has not, each as often as it has it not.
fn without(all: &[Value], other: &[Value]) -> Value {
    let mut other = other.to_vec();
    let own = all.iter().filter(|item| match other.iter().position(|one| one == *item) {
        Some(at) => {
            other.remove(at);
            false
        }
        None => true,
    });
    own.cloned().collect()
}

fn note(path: &str, truth: Option<&Value>, hub: Option<&Value>, lines: &mut Vec<String>) {
    lines.push(format!("    {path}\n      kube {}\n      hub  {}", shown(truth), shown(hub)));
}

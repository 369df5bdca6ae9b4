//! The order of a merged list: what the patch names in the patch's order, what only the server has where it was.
//!
//! In: the merged list, the patch's own, the order that it asks for and the server's. Out: the merged elements in that order; none is added
//! or dropped. Pure.

use std::collections::HashMap;

use serde_json::Value;

/// What tells list elements apart: their merge key's value, or themselves.
pub(super) fn identity<'a>(item: &'a Value, merge_key: Option<&str>) -> Option<&'a Value> {
    match (item, merge_key) {
        (Value::Object(fields), Some(key)) => fields.get(key),
        (Value::Object(_), None) => None,
        _ => Some(item),
    }
}

/// Where each identity stands first in a list; found without going through the list for each.
pub(super) struct Places<'a> {
    texts: HashMap<&'a str, usize>,
    /// All that is no text: by their JSON.
    others: HashMap<String, usize>,
}

impl<'a> Places<'a> {
    pub fn of(list: &'a [Value], merge_key: Option<&str>) -> Places<'a> {
        let mut places = Places { texts: HashMap::new(), others: HashMap::new() };
        for (at, item) in list.iter().enumerate() {
            match identity(item, merge_key) {
                Some(Value::String(text)) => {
                    places.texts.entry(text).or_insert(at);
                }
                Some(other) => {
                    places.others.entry(other.to_string()).or_insert(at);
                }
                None => {}
            }
        }
        places
    }

    pub fn find(&self, identity: &Value) -> Option<usize> {
        match identity {
            Value::String(text) => self.texts.get(text.as_str()).copied(),
            other => self.others.get(&other.to_string()).copied(),
        }
    }

    fn of_item(&self, item: &Value, merge_key: Option<&str>) -> Option<usize> {
        self.find(identity(item, merge_key)?)
    }
}

/// Orders `merged`: elements that `patch_order` names follow it; the others keep the server's order, each as far
/// forward as `server_order` puts it before a named one.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let (patch, server) = (Places::of(patch_order, merge_key), Places::of(server_order, merge_key));
    let place = |order: &Places<'_>, item: &Value| order.of_item(item, merge_key).unwrap_or(usize::MAX);
    let (mut named, mut own): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| patch.of_item(item, merge_key).is_some());
    named.sort_by_cached_key(|item| place(&patch, item));
    own.sort_by_cached_key(|item| place(&server, item));
    let mut out = Vec::with_capacity(named.len() + own.len());
    let (mut named, mut own) = (named.into_iter().peekable(), own.into_iter().peekable());
    loop {
        let take_own = match (own.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => {
                match (server.of_item(left, merge_key), server.of_item(right, merge_key)) {
                    (Some(left), Some(right)) => left < right,
                    _ => false,
                }
            }
        };
        out.extend(if take_own { own.next() } else { named.next() });
    }
}

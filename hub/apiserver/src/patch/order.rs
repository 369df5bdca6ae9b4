//! The order of a merged list: what the patch names in the patch's order, what only the server has where it was.

use serde_json::Value;

/// What tells list elements apart: their merge key's value, or themselves.
pub(super) fn identity<'a>(item: &'a Value, merge_key: Option<&str>) -> Option<&'a Value> {
    match (item, merge_key) {
        (Value::Object(fields), Some(key)) => fields.get(key),
        (Value::Object(_), None) => None,
        _ => Some(item),
    }
}

fn position(order: &[Value], item: &Value, merge_key: Option<&str>) -> Option<usize> {
    let wanted = identity(item, merge_key)?;
    order.iter().position(|one| identity(one, merge_key) == Some(wanted))
}

/// Orders `merged`: elements that `patch_order` names follow it; the others keep the server's order, each as far
/// forward as `server_order` puts it before a named one.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let place = |order: &[Value], item: &Value| position(order, item, merge_key).unwrap_or(usize::MAX);
    let (mut named, mut own): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position(patch_order, item, merge_key).is_some());
    named.sort_by_key(|item| place(patch_order, item));
    own.sort_by_key(|item| place(server_order, item));
    let mut out = Vec::with_capacity(named.len() + own.len());
    let (mut named, mut own) = (named.into_iter().peekable(), own.into_iter().peekable());
    loop {
        let take_own = match (own.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => {
                match (position(server_order, left, merge_key), position(server_order, right, merge_key)) {
                    (Some(left), Some(right)) => left < right,
                    _ => false,
                }
            }
        };
        out.extend(if take_own { own.next() } else { named.next() });
    }
}

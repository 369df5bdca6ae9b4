//! Changes inside texts that hold JSON or YAML, as ConfigMaps have them.
//!
//! In: a manifest, what is to be changed. Out: the manifest changed, or why not. What is promised: however a text and the changes are
//! written, they take bounded memory and bounded work, as anybody who may write a policy may write both.

use karmada_api::override_policy::FieldOverrider;
use karmada_schema::yaml;
use serde_json::Value;

use super::{Room, patch_fields};

/// What a text may stand for, and a manifest may have in all: twice what an object may have where it is stored.
const MOST: usize = 3 << 20;
/// Bytes of texts that are read to change one manifest.
const MOST_READ: usize = 64 << 20;

/// What may still be read to change one manifest, in bytes.
#[derive(Debug)]
pub(super) struct ReadBudget(usize);

impl Default for ReadBudget {
    fn default() -> Self {
        Self(MOST_READ)
    }
}

/// Reads the text, applies the operations, writes it back. An empty text stays empty as JSON.
///
/// # Errors
/// The path leads not to a text, the text cannot be read, an operation does not apply, or it is too much.
pub(super) fn apply(manifest: &mut Value, overrider: &FieldOverrider, room: &mut Room) -> Result<(), String> {
    let path = &overrider.field_path;
    let field = manifest.pointer_mut(path).ok_or_else(|| format!("there is no field at {path}"))?;
    let text = field.as_str().ok_or_else(|| format!("what is at {path} is no text"))?.to_owned();
    let left = room.texts.0.checked_sub(text.len());
    room.texts.0 = left.ok_or_else(|| format!("more than {MOST_READ} bytes of texts are to be changed"))?;
    if !overrider.json.is_empty() && !text.is_empty() {
        let mut document: Value =
            serde_json::from_str(&text).map_err(|error| format!("what is at {path} is no JSON: {error}"))?;
        patch_fields(&mut document, &overrider.json, &mut room.patches)?;
        *field = Value::from(document.to_string());
    } else if !overrider.yaml.is_empty() {
        let mut document = yaml::read::<MOST>(&text)
            .map_err(|error| format!("what is at {path} is no YAML that can be read: {error}"))?;
        patch_fields(&mut document, &overrider.yaml, &mut room.patches)?;
        let written = yaml::write(&document).map_err(|error| error.to_string())?;
        *field = Value::from(written);
    }
    if texts(manifest) > MOST {
        return Err(format!("with what is at {path} changed the manifest has more than {MOST} bytes"));
    }
    Ok(())
}

/// Bytes of all texts.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(fields) => fields.values().map(texts).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn overrider(field: &str) -> FieldOverrider {
        let yaml = json!([{"subPath": "/c", "operator": "add", "value": 1}]);
        serde_json::from_value(json!({"fieldPath": field, "yaml": yaml})).unwrap()
    }

    /// What an override is not about keeps its worth, as Go reads it, and texts stay texts.
    #[test]
    fn numbers_and_texts_beside_a_change_stay_what_they_are() {
        let text = "oct: 0644\nzip: 01234\noctbad: 0899\nexp: 1e3\nbig: 9007199254740993\nf: 1.5\nquoted: '0644'\non: yes\n";
        let mut manifest = json!({"data": {"config": text}});
        apply(&mut manifest, &overrider("/data/config"), &mut Room::default()).unwrap();
        assert_eq!(
            manifest["data"]["config"],
            "big: 9007199254740993\nc: 1\nexp: 1000\nf: 1.5\noct: 420\noctbad: 899\n\"on\": true\nquoted: \"0644\"\nzip: 668\n"
        );
    }

    /// A hundred kilobytes that stand for half a gigabyte, and a hundred texts that stand for three megabytes each.
    #[test]
    fn a_text_of_aliases_stands_for_no_more_than_a_manifest_may_have() {
        // The reader counts aliases beside anchors, of which there are as many as it wants.
        let bomb = |bytes: usize, times: usize| {
            let aliases: String = (0..times).map(|at| format!("&n{at} 1, {}", "*a, ".repeat(8))).collect();
            format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(bytes))
        };
        let mut manifest = json!({"data": {"whole": bomb(100_000, 600), "plain": "a: &a {x: z}\nb: *a\n"}});
        let refused = apply(&mut manifest, &overrider("/data/whole"), &mut Room::default()).unwrap_err();
        assert!(refused.contains("stands for more than"), "{refused}");
        apply(&mut manifest, &overrider("/data/plain"), &mut Room::default()).unwrap();
        assert_eq!(manifest["data"]["plain"], "a:\n  x: z\nb:\n  x: z\nc: 1\n");
        let texts: serde_json::Map<String, Value> =
            (0..100).map(|at| (format!("t{at}"), Value::from(bomb(10_000, 20)))).collect();
        let mut manifest = json!({"data": texts});
        let mut room = Room::default();
        let grown = (0..100)
            .find_map(|at| apply(&mut manifest, &overrider(&format!("/data/t{at}")), &mut room).err());
        let grown = grown.unwrap();
        assert!(grown.contains("the manifest has more than"), "{grown}");
    }

    #[test]
    fn a_manifest_may_have_so_many_bytes_and_not_one_more() {
        let grown = "a: 1\nc: 1\n".len();
        for (beyond, fits) in [(0, true), (1, false)] {
            let fill = "x".repeat(MOST - grown + beyond);
            let mut manifest = json!({"data": {"small": "a: 1\n", "fill": fill}});
            let applied = apply(&mut manifest, &overrider("/data/small"), &mut Room::default());
            assert_eq!(applied.is_ok(), fits, "{beyond}");
        }
    }

    #[test]
    fn ten_thousand_changes_of_a_long_text_are_refused() {
        let mut manifest = json!({"data": {"long": format!("a: {}\n", "x".repeat(1_000_000))}});
        let mut room = Room::default();
        let stopped =
            (0..10_000).position(|_| apply(&mut manifest, &overrider("/data/long"), &mut room).is_err());
        assert_eq!(stopped, Some(67));
    }
}

//! An object as the cache holds it: its JSON, and the few facts that many readers ask of it.
//!
//! In: bytes in storage form and their revision. Out: a [`Stored`].
//!
//! A hub holds as many of these as it has objects, so each is small: texts are not copied out of the JSON, only where they
//! stand in it is kept, and labels are read there by who asks for one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::ObjectKey;
use super::pieces::Pieces;
use super::shared_values::SharedValues;
use super::text::Text;

/// An object as the cache holds it.
#[derive(Debug)]
pub struct Stored {
    /// Where it stands.
    pub key: ObjectKey,
    /// `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.generation`, 0 where absent.
    pub generation: i64,
    /// A digest of what people and controllers set in `metadata` without raising the generation: labels, annotations, owners,
    /// finalizers. With the generation it tells a change of the status from any other; good within one process only.
    pub metadata_digest: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    texts: Texts,
    /// Those of the texts that are not in the JSON as they read, or not in one piece of it.
    apart: Option<Box<[Option<Box<str>>; 2]>>,
    json: Pieces,
}

/// Where texts stand in the JSON. Beginnings and lengths lie apart, so that nothing is padded.
#[derive(Debug, Default)]
struct Texts {
    from: [u32; 2],
    len: [u16; 2],
}

/// Which of the texts: `metadata.uid`, and `metadata.labels` as JSON.
const UID: usize = 0;
const LABELS: usize = 1;

impl Stored {
    /// Reads bytes in storage form.
    ///
    /// # Errors
    /// They are no object, as in a damaged store.
    pub fn read(bytes: &Bytes, revision: u64) -> Result<Stored, serde_json::Error> {
        let json = stamp(bytes, revision);
        Stored::of(&json, revision, Pieces::of(&json))
    }

    /// The same; what other objects have as well is kept once for all of them.
    ///
    /// # Errors
    /// They are no object, as in a damaged store.
    pub fn read_sharing(
        bytes: &Bytes,
        revision: u64,
        values: &SharedValues,
    ) -> Result<Stored, serde_json::Error> {
        let json = stamp(bytes, revision);
        let pieces = match values.of(&json) {
            Some((place, shared)) => Pieces::around(&json, place, shared),
            None => Pieces::of(&json),
        };
        Stored::of(&json, revision, pieces)
    }

    fn of(json: &Bytes, revision: u64, pieces: Pieces) -> Result<Stored, serde_json::Error> {
        let Head { metadata: meta } = serde_json::from_slice(json)?;
        let labels = meta.labels.map_or("", RawValue::get);
        let mut digest = DefaultHasher::new();
        (labels, meta.annotations.map(RawValue::get), meta.finalizers.map(RawValue::get)).hash(&mut digest);
        meta.owner_references.map(RawValue::get).hash(&mut digest);
        let mut stored = Stored {
            key: ObjectKey { namespace: meta.namespace.into(), name: meta.name.into() },
            revision,
            generation: meta.generation,
            metadata_digest: digest.finish(),
            deleting: meta.deletion_timestamp.is_some(),
            texts: Texts::default(),
            apart: None,
            json: pieces,
        };
        stored.place(UID, json, &meta.uid.0);
        stored.place(LABELS, json, labels);
        Ok(stored)
    }

    /// Notes where a text stands that was read from the JSON, or the text itself where it is not there as it reads.
    fn place(&mut self, which: usize, json: &[u8], text: &str) {
        if text.is_empty() {
            return;
        }
        // A text that was borrowed begins within the JSON; any other lies elsewhere.
        let from = (text.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
        let stands = from < json.len() && self.json.get(from, text.len()).is_some();
        match (u32::try_from(from), u16::try_from(text.len())) {
            (Ok(from), Ok(len)) if stands => (self.texts.from[which], self.texts.len[which]) = (from, len),
            _ => self.apart.get_or_insert_default()[which] = Some(text.into()),
        }
    }

    fn text(&self, which: usize) -> &str {
        if let Some(text) = self.apart.as_ref().and_then(|apart| apart[which].as_deref()) {
            return text;
        }
        let bytes = self.json.get(self.texts.from[which] as usize, self.texts.len[which].into());
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// The same object as it last stood, under the revision of its removal.
    pub fn removed_at(&self, revision: u64) -> Stored {
        let json = unstamp(self.json.whole(), self.revision);
        // Only the digits of a revision differ from bytes that were read before.
        let mut gone = Stored::read(&json, revision).expect("what was read once can be read again");
        gone.key = self.key.clone();
        gone
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text(UID)
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> BTreeMap<String, String> {
        serde_json::from_str(self.text(LABELS)).unwrap_or_default()
    }

    /// The label's value.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        serde_json::Deserializer::from_str(self.text(LABELS)).deserialize_map(Label(key)).ok()?
    }

    /// The whole object, `metadata.resourceVersion` included.
    pub fn json(&self) -> Bytes {
        self.json.whole()
    }

    /// The JSON from a place on, in pieces of which some may be empty.
    pub fn json_from(&self, from: usize) -> [&[u8]; 3] {
        let mut before = from;
        self.json.all().map(|piece| {
            let here = before.min(piece.len());
            before -= here;
            &piece[here..]
        })
    }

    /// Where `metadata` begins in the JSON: behind `kind` and `apiVersion`.
    pub fn metadata_from(&self) -> Option<usize> {
        let before: Vec<u8> =
            self.json.all().into_iter().flatten().take(MOST_BEFORE_METADATA).copied().collect();
        find(&before, METADATA)
    }

    /// How long the JSON is.
    pub fn json_len(&self) -> usize {
        self.json.len()
    }

    /// Whether the JSON begins with `head`.
    pub fn starts_with(&self, head: &[u8]) -> bool {
        let mut left = head;
        self.json.all().into_iter().all(|piece| {
            let (here, rest) = left.split_at(left.len().min(piece.len()));
            left = rest;
            piece.starts_with(here)
        }) && left.is_empty()
    }

    /// The object parsed. The cache only ever holds JSON that parsed once.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json.whole()).unwrap_or(Value::Null)
    }
}

/// Looks one label up among all, without keeping the others.
struct Label<'k>(&'k str);

impl<'de> Visitor<'de> for Label<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("labels")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut labels: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(Text(key)) = labels.next_key()? {
            if key == self.0 {
                found = Some(labels.next_value::<Text<'_>>()?.0);
            } else {
                labels.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default, borrow)]
    uid: Text<'a>,
    #[serde(default)]
    generation: i64,
    #[serde(default, borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(default, borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(default, borrow)]
    finalizers: Option<&'a RawValue>,
    #[serde(default, borrow)]
    labels: Option<&'a RawValue>,
    #[serde(default, borrow)]
    owner_references: Option<&'a RawValue>,
}

const METADATA: &[u8] = b"\"metadata\":{";
/// A kind and a group have 63 and 253 characters at most.
const MOST_BEFORE_METADATA: usize = 512;

/// Splices the revision in. The first `"metadata":{` is the object's own: only `kind` and `apiVersion` precede it.
fn stamp(bytes: &Bytes, revision: u64) -> Bytes {
    // What was not written has no version.
    let at = find(bytes, METADATA).map(|at| at + METADATA.len()).filter(|_| revision > 0);
    let Some(at) = at else { return bytes.clone() };
    let field = format!("\"resourceVersion\":\"{revision}\",");
    let mut out = BytesMut::with_capacity(bytes.len() + field.len());
    out.put_slice(&bytes[..at]);
    out.put_slice(field.as_bytes());
    out.put_slice(&bytes[at..]);
    out.freeze()
}

/// Takes the revision out again.
fn unstamp(json: Bytes, revision: u64) -> Bytes {
    let field = format!("\"resourceVersion\":\"{revision}\",");
    match find(&json, field.as_bytes()) {
        Some(at) => [&json[..at], &json[at + field.len()..]].concat().into(),
        None => json,
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::encode;
    use super::*;

    fn stored(metadata: &Value, padding: usize) -> Stored {
        let object = json!({"metadata": metadata, "data": {"metadata": "\"metadata\":{", "long": "x".repeat(padding)}});
        Stored::read(&encode(&object, "ConfigMap", "v1"), 7).unwrap()
    }

    #[test]
    fn a_revision_is_spliced_in_and_replaced_on_removal() {
        let stored = stored(&json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "3"}), 0);
        assert_eq!(stored.value()["metadata"]["resourceVersion"], "7");
        assert_eq!(stored.value()["data"]["metadata"], "\"metadata\":{");
        let gone = stored.removed_at(9);
        assert_eq!(gone.value()["metadata"]["resourceVersion"], "9");
        assert_eq!((gone.revision, gone.uid(), gone.key == stored.key), (9, "u", true));
        assert!(stored.starts_with(b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{"));
        assert!(!stored.starts_with(b"{\"kind\":\"Secret\""));
    }

    /// Whatever the length of the head, and so wherever the cut falls: labels and uid are found.
    #[test]
    fn texts_are_found_wherever_the_json_is_cut() {
        for before in 0..600 {
            let metadata = json!({"annotations": {"a": "x".repeat(before)}, "name": "a", "uid": "the-uid",
                "labels": {"b": "2", "a": "1", "\"": "\u{1}"}});
            let stored = stored(&metadata, 100);
            assert_eq!(stored.uid(), "the-uid");
            assert_eq!(json!(stored.labels()), metadata["labels"]);
            let label = |key: &str| stored.label(key).unwrap_or_default();
            assert_eq!([label("a"), label("\""), label("c")], ["1", "\u{1}", ""]);
            assert_eq!(stored.json_len(), stored.json().len());
        }
    }

    #[test]
    fn what_an_object_lacks_costs_it_nothing() {
        let bare = stored(&json!({"name": "a"}), 0);
        assert_eq!((bare.uid(), bare.labels().len(), bare.label("a")), ("", 0, None));
        // Beside the two counters of an `Arc` it fits a size of the allocator.
        assert_eq!(size_of::<Stored>() + 16, 128);
    }
}

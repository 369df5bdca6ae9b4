//! An object as the cache holds it: its JSON, and the few facts that many readers ask of it.
//!
//! In: bytes in storage form and their revision. Out: a [`Stored`].
//!
//! A hub holds as many of these as it has objects, so each is small: texts are not copied out of the JSON, only where they
//! stand in it is kept, and what most objects lack (labels, owners) costs them one pointer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ObjectKey;
use super::pieces::Pieces;

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
    pub marks: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    uid: Text,
    /// What most objects lack.
    more: Option<Box<More>>,
    json: Pieces,
}

/// Labels and owners, and texts that are not in the JSON as they read.
#[derive(Debug, Default)]
struct More {
    /// Sorted by key.
    labels: Box<[(Text, Text)]>,
    owners: Box<[Text]>,
    apart: Box<[Box<str>]>,
}

/// Where a text stands: in the JSON, or, where JSON escapes it or it lies across a cut, among the texts kept apart.
#[derive(Clone, Copy, Debug)]
struct Text {
    from: u32,
    /// [`APART`]: `from` counts the texts kept apart.
    len: u32,
}

const APART: u32 = u32::MAX;

impl Stored {
    /// Reads bytes in storage form. Fails where they are no object (a damaged store).
    pub fn read(bytes: &Bytes, revision: u64) -> Result<Stored, serde_json::Error> {
        let json = stamp(bytes, revision);
        let Head { metadata: meta } = serde_json::from_slice(&json)?;
        let mut digest = DefaultHasher::new();
        (&meta.labels, meta.annotations.map(RawValue::get), meta.finalizers.map(RawValue::get))
            .hash(&mut digest);
        meta.owner_references.iter().for_each(|owner| owner.uid.hash(&mut digest));
        let mut texts = Texts { json: &json, pieces: Pieces::of(&json), apart: Vec::new() };
        let uid = texts.place(meta.uid);
        let labels = meta.labels.into_iter().flatten();
        let labels = labels.map(|(key, value)| (texts.place(key), texts.place(value))).collect();
        let owners = meta.owner_references.into_iter().map(|owner| texts.place(owner.uid)).collect();
        let Texts { pieces, apart, .. } = texts;
        let more = More { labels, owners, apart: apart.into_boxed_slice() };
        let none = more.labels.is_empty() && more.owners.is_empty() && more.apart.is_empty();
        Ok(Stored {
            key: ObjectKey { namespace: meta.namespace.into(), name: meta.name.into() },
            revision,
            generation: meta.generation,
            marks: digest.finish(),
            deleting: meta.deletion_timestamp.is_some(),
            uid,
            more: (!none).then(|| Box::new(more)),
            json: pieces,
        })
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
        self.text(self.uid)
    }

    /// `metadata.labels`, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.more
            .iter()
            .flat_map(|more| &more.labels)
            .map(|(key, value)| (self.text(*key), self.text(*value)))
    }

    /// The label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.more.as_ref()?.labels;
        let at = labels.binary_search_by(|(k, _)| self.text(*k).cmp(key)).ok()?;
        Some(self.text(labels[at].1))
    }

    /// The uids of `metadata.ownerReferences`.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.more.iter().flat_map(|more| &more.owners).map(|uid| self.text(*uid))
    }

    /// The whole object, `metadata.resourceVersion` included.
    pub fn json(&self) -> Bytes {
        self.json.whole()
    }

    /// The JSON from a place on, in two pieces of which the second may be empty.
    pub fn json_from(&self, from: usize) -> [&[u8]; 2] {
        let [head, tail] = self.json.both();
        match from.checked_sub(head.len()) {
            None => [&head[from..], tail],
            Some(from) => [tail.get(from..).unwrap_or_default(), &[]],
        }
    }

    /// Where `metadata` begins in the JSON: behind `kind` and `apiVersion`.
    pub fn metadata_from(&self) -> Option<usize> {
        let before: Vec<u8> =
            self.json.both().into_iter().flatten().take(MOST_BEFORE_METADATA).copied().collect();
        find(&before, METADATA)
    }

    /// How long the JSON is.
    pub fn json_len(&self) -> usize {
        self.json.len()
    }

    /// Whether the JSON begins with `head`.
    pub fn starts_with(&self, head: &[u8]) -> bool {
        let [first, second] = self.json.both();
        match head.split_at_checked(first.len()) {
            None => first.starts_with(head),
            Some((begin, rest)) => first == begin && second.starts_with(rest),
        }
    }

    /// The object parsed. The cache only ever holds JSON that parsed once.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json.whole()).unwrap_or(Value::Null)
    }

    fn text(&self, Text { from, len }: Text) -> &str {
        if len == APART {
            return self.more.as_ref().and_then(|more| more.apart.get(from as usize)).map_or("", |text| text);
        }
        let bytes = self.json.get(from as usize, len as usize);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }
}

/// Finds where texts stand.
struct Texts<'a> {
    json: &'a [u8],
    pieces: Pieces,
    apart: Vec<Box<str>>,
}

impl Texts<'_> {
    fn place(&mut self, said: Said<'_>) -> Text {
        if said.0.is_empty() {
            return Text { from: 0, len: 0 };
        }
        if let Cow::Borrowed(text) = said.0 {
            // What was borrowed begins within the JSON.
            let from = text.as_ptr() as usize - self.json.as_ptr() as usize;
            let in_one_piece = self.pieces.get(from, text.len()).is_some();
            if let (Ok(from), Ok(len), true) = (u32::try_from(from), u32::try_from(text.len()), in_one_piece)
            {
                return Text { from, len };
            }
        }
        self.apart.push(said.0.into());
        Text { from: u32::try_from(self.apart.len() - 1).unwrap_or(u32::MAX), len: APART }
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
    uid: Said<'a>,
    #[serde(default)]
    generation: i64,
    #[serde(default, borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(default, borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(default, borrow)]
    finalizers: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Said<'a>, Said<'a>>>,
    #[serde(default, borrow)]
    owner_references: Vec<Owner<'a>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(default, borrow)]
    uid: Said<'a>,
}

/// A text, borrowed from the JSON where nothing in it is escaped.
#[derive(Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Said<'a>(#[serde(borrow)] Cow<'a, str>);

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

    /// Whatever the length of the head, and so wherever the cut falls: labels, owners and uid are found.
    #[test]
    fn texts_are_found_wherever_the_json_is_cut() {
        for before in 0..600 {
            let metadata = json!({"annotations": {"a": "x".repeat(before)}, "name": "a", "uid": "the-uid",
                "labels": {"b": "2", "a": "1", "\"": "\u{1}"}, "ownerReferences": [{"uid": "one"}, {"uid": "t\"wo"}, {}]});
            let stored = stored(&metadata, 100);
            assert_eq!(stored.uid(), "the-uid");
            assert_eq!(stored.labels().collect::<Vec<_>>(), [("\"", "\u{1}"), ("a", "1"), ("b", "2")]);
            assert_eq!(
                (stored.label("a"), stored.label("\""), stored.label("c")),
                (Some("1"), Some("\u{1}"), None)
            );
            assert_eq!(stored.owners().collect::<Vec<_>>(), ["one", "t\"wo", ""]);
            assert_eq!(stored.json_len(), stored.json().len());
        }
    }

    #[test]
    fn what_an_object_lacks_costs_it_nothing() {
        let bare = stored(&json!({"name": "a"}), 0);
        assert_eq!(
            (bare.uid(), bare.labels().count(), bare.owners().count(), bare.label("a")),
            ("", 0, 0, None)
        );
        // Beside the two counters of an `Arc` it fits a size of the allocator.
        assert_eq!(size_of::<Stored>() + 16, 128);
    }
}

//! What a table holds, told in a few bytes: a sum over all of its rows, sums over 256 buckets of them, and one row.
//!
//! Both ends compute these over what they hold of the same table and compare. Equal roots say that both hold the same, whatever came
//! between; where they differ, the sums of the buckets say where, so that what was lost is found without any history.
//!
//! In: a table's rows, each a key and the [`Content`] that is held under it; a [`Seed`]. Out: the [`Root`], the buckets' sums. Pure.
//!
//! Whoever may choose many rows, and knows how they are hashed, could make two tables of the same sum. So each session draws a seed that
//! no writer of rows knows.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Buckets of a table. With 5,000 rows some twenty are in each, and the sums of all are 2 KiB.
pub const BUCKETS: usize = 256;

/// Bytes of a bucket's sum on the wire.
const SUM: usize = 8;

/// A digest of what is held under one key, whatever the seed.
pub type Content = [u8; 16];

/// What hashes of one session are salted with. The default is no salt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seed([u8; 16]);

impl Seed {
    /// Of 16 random bytes.
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// As it came over the wire; `None` where a peer sent none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// For the wire.
    pub fn bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The hash of one row.
    fn row(&self, key: &str, content: &Content) -> u128 {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(content);
        hasher.update(key.as_bytes());
        u128::from_be_bytes(first16(hasher))
    }
}

/// The sum over all rows of a table, kept as rows come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Root(u128);

impl Root {
    /// Of all of a table.
    pub fn of<'a>(seed: &Seed, rows: impl IntoIterator<Item = (&'a str, Content)>) -> Self {
        let mut root = Self::default();
        rows.into_iter().for_each(|(key, content)| root.add(seed, key, &content));
        root
    }

    /// A row came.
    pub fn add(&mut self, seed: &Seed, key: &str, content: &Content) {
        self.0 = self.0.wrapping_add(seed.row(key, content));
    }

    /// A row went.
    pub fn remove(&mut self, seed: &Seed, key: &str, content: &Content) {
        self.0 = self.0.wrapping_sub(seed.row(key, content));
    }

    /// As it came over the wire; `None` where a peer sent none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }

    /// For the wire: 16 bytes.
    pub fn bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }
}

/// The bucket that a key is in.
pub fn bucket(key: &str) -> usize {
    usize::from(Sha256::digest(key.as_bytes())[0])
}

/// The sums of a table's buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets(Vec<u64>);

impl Buckets {
    /// Of all of a table.
    pub fn of<'a>(seed: &Seed, rows: impl IntoIterator<Item = (&'a str, Content)>) -> Self {
        let mut sums = vec![0_u64; BUCKETS];
        for (key, content) in rows {
            // The low half of a sum is the sum of the low halves.
            let sum = &mut sums[bucket(key)];
            *sum = sum.wrapping_add(seed.row(key, &content) as u64);
        }
        Self(sums)
    }

    /// As they came over the wire; `None` where these are not the sums of so many buckets.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (sums, rest) = bytes.as_chunks::<SUM>();
        let complete = sums.len() == BUCKETS && rest.is_empty();
        complete.then(|| Self(sums.iter().map(|sum| u64::from_be_bytes(*sum)).collect()))
    }

    /// For the wire: 2 KiB.
    pub fn bytes(&self) -> Bytes {
        self.0.iter().flat_map(|sum| sum.to_be_bytes()).collect::<Vec<u8>>().into()
    }

    /// The buckets whose sums differ.
    pub fn differing(&self, other: &Self) -> Vec<u32> {
        let pairs = self.0.iter().zip(&other.0).zip(0_u32..);
        pairs.filter(|((ours, theirs), _)| ours != theirs).map(|(_, bucket)| bucket).collect()
    }
}

/// What a Work says beside its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkHeader<'a> {
    /// The Work's uid.
    pub uid: &'a str,
    /// The member must be left as it is.
    pub suspended: bool,
    /// Once deleted, the member keeps the objects.
    pub preserve: bool,
    /// Its generation.
    pub generation: u64,
    /// A person's word to try again what was put aside.
    pub retry: &'a str,
}

/// A Work that is to be enforced: `hash` is its body's.
pub fn work_row(header: WorkHeader<'_>, hash: &[u8]) -> Content {
    let WorkHeader { uid, suspended, preserve, generation, retry } = header;
    let flags = [u8::from(suspended), u8::from(preserve)];
    content(b"desired", &[uid.as_bytes(), hash, &flags, &generation.to_be_bytes(), retry.as_bytes()])
}

/// A Work that is being deleted, or was: of its body nothing counts any more.
pub fn deleting(uid: &str, preserve: bool, retry: &str) -> Content {
    content(b"deleting", &[uid.as_bytes(), &[u8::from(preserve)], retry.as_bytes()])
}

/// How a Work fares, as its agent tells it and the hub keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedOutcome<'a> {
    /// The Work's uid.
    pub uid: &'a str,
    /// Of the body that this is about.
    pub hash: &'a [u8],
    /// The generation of the Work that the outcome is about.
    pub generation: u64,
    /// Whether applying it went well, the reason and the message.
    pub applied: Option<(bool, &'a str, &'a str)>,
    /// [`statuses`] of the manifests, where some were ever told.
    pub statuses: Option<Content>,
}

/// The row of the table of statuses for a Work that fares so.
pub fn status_row(fares: ReportedOutcome<'_>) -> Content {
    let ReportedOutcome { uid, hash, generation, applied, statuses } = fares;
    let statuses = statuses.unwrap_or_default();
    let Some((ok, reason, message)) = applied else {
        return content(b"untried", &[uid.as_bytes(), hash, &statuses]);
    };
    let said: [&[u8]; 6] = [
        uid.as_bytes(),
        hash,
        &generation.to_be_bytes(),
        &[u8::from(ok)],
        reason.as_bytes(),
        message.as_bytes(),
    ];
    content(b"applied", &[&content(b"said", &said), &statuses])
}

/// What an agent tells of its cluster: of `Cluster.status` those fields and conditions, without the times, which are the hub's.
pub fn cluster_digest(status: &Value) -> Content {
    let mut told = serde_json::Map::new();
    for field in ["kubernetesVersion", "apiEnablements", "nodeSummary", "resourceSummary"] {
        if let Some(value) = status.get(field) {
            told.insert(field.to_owned(), value.clone());
        }
    }
    let of_agents = |condition: &&Value| {
        ["Ready", "CompleteAPIEnablements"].iter().any(|kind| condition["type"] == *kind)
    };
    for condition in status["conditions"].as_array().into_iter().flatten().filter(of_agents) {
        let kind = condition["type"].as_str().unwrap_or_default().to_owned();
        let said = ["status", "reason", "message"].map(|field| condition[field].clone());
        told.insert(kind, Value::from(said.to_vec()));
    }
    json(&Value::Object(told))
}

/// `status.manifestStatuses` of a Work; none and nothing are the same.
pub fn statuses(statuses: &Value) -> Option<Content> {
    statuses.as_array().is_some_and(|all| !all.is_empty()).then(|| json(statuses))
}

/// A JSON value, whatever the order of its fields.
pub fn json(value: &Value) -> Content {
    let mut hasher = Sha256::new();
    absorb(&mut hasher, value);
    first16(hasher)
}

/// Every value begins with its kind and length, so that no two read alike. As deep as the value, which serde_json bounds at 128.
fn absorb(hasher: &mut Sha256, value: &Value) {
    let mut text = |kind: u8, text: &str| {
        hasher.update([kind]);
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    match value {
        Value::Null => text(0, ""),
        Value::Bool(value) => text(1, if *value { "t" } else { "f" }),
        Value::Number(value) => text(2, &value.to_string()),
        Value::String(value) => text(3, value),
        Value::Array(items) => {
            text(4, &items.len().to_string());
            items.iter().for_each(|item| absorb(hasher, item));
        }
        Value::Object(fields) => {
            text(5, &fields.len().to_string());
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                absorb(hasher, &Value::String(name.clone()));
                absorb(hasher, value);
            }
        }
    }
}

fn content(what: &[u8], parts: &[&[u8]]) -> Content {
    let mut hasher = Sha256::new();
    for part in [what].iter().chain(parts) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    first16(hasher)
}

fn first16(hasher: Sha256) -> [u8; 16] {
    let digest = hasher.finalize();
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as j;

    const SEED: Seed = Seed([7; 16]);

    fn rows(of: &[(&'static str, u8)]) -> Vec<(&'static str, Content)> {
        of.iter().map(|(key, content)| (*key, [*content; 16])).collect()
    }

    #[test]
    fn a_root_is_of_what_is_held_and_not_of_how_it_came() {
        let all = Root::of(&SEED, rows(&[("a", 1), ("b", 2)]));
        assert_eq!(all, Root::of(&SEED, rows(&[("b", 2), ("a", 1)])));
        let mut kept = Root::of(&SEED, rows(&[("a", 1), ("c", 9)]));
        assert_ne!(kept, all);
        kept.remove(&SEED, "c", &[9; 16]);
        kept.add(&SEED, "b", &[2; 16]);
        assert_eq!(kept, all);
        assert_eq!(Root::read(&all.bytes()), Some(all));
        assert_eq!(Root::read(b"short"), None);
        for other in [rows(&[("a", 2), ("b", 1)]), rows(&[("a", 1)]), rows(&[("ab", 1), ("", 2)])] {
            assert_ne!(Root::of(&SEED, other), all);
        }
        assert_ne!(Root::of(&Seed([8; 16]), rows(&[("a", 1), ("b", 2)])), all, "each session has its own");
    }

    #[test]
    fn a_bucket_that_differs_is_named_and_no_other() {
        let keys: Vec<String> = (0..5000).map(|at| format!("w{at}")).collect();
        let of = |changed: Option<&str>| {
            let content = |key: &str| if Some(key) == changed { [1; 16] } else { [0; 16] };
            Buckets::of(&SEED, keys.iter().map(|key| (key.as_str(), content(key))))
        };
        let (held, other) = (of(None), of(Some("w77")));
        assert_eq!(held.differing(&other), [bucket("w77") as u32]);
        assert_eq!(held.bytes().len(), 2048);
        assert_eq!(Buckets::read(&held.bytes()), Some(held.clone()));
        assert_eq!(Buckets::read(&held.bytes()[..2040]), None);
        let most = (0..BUCKETS).map(|b| keys.iter().filter(|key| bucket(key) == b).count()).max();
        assert!(most < Some(50), "{most:?}");
    }

    #[test]
    fn each_part_of_a_row_counts() {
        let header = WorkHeader { uid: "u", suspended: false, preserve: false, generation: 1, retry: "" };
        let all = [
            work_row(header, b"h"),
            work_row(header, b"i"),
            work_row(WorkHeader { uid: "v", ..header }, b"h"),
            work_row(WorkHeader { suspended: true, ..header }, b"h"),
            work_row(WorkHeader { preserve: true, ..header }, b"h"),
            work_row(WorkHeader { generation: 2, ..header }, b"h"),
            work_row(WorkHeader { retry: "r", ..header }, b"h"),
            deleting("u", false, ""),
            deleting("u", true, ""),
            deleting("u", false, "r"),
            deleting("v", false, ""),
        ];
        let fares = ReportedOutcome {
            uid: "u",
            hash: b"h",
            generation: 1,
            applied: Some((true, "r", "m")),
            statuses: None,
        };
        let fare = [
            status_row(fares),
            status_row(ReportedOutcome { uid: "v", ..fares }),
            status_row(ReportedOutcome { hash: b"i", ..fares }),
            status_row(ReportedOutcome { generation: 2, ..fares }),
            status_row(ReportedOutcome { applied: Some((false, "r", "m")), ..fares }),
            status_row(ReportedOutcome { applied: Some((true, "s", "m")), ..fares }),
            status_row(ReportedOutcome { applied: Some((true, "r", "n")), ..fares }),
            status_row(ReportedOutcome { applied: None, ..fares }),
            status_row(ReportedOutcome { statuses: Some([1; 16]), ..fares }),
            status_row(ReportedOutcome { applied: None, statuses: Some([1; 16]), ..fares }),
        ];
        let distinct: std::collections::BTreeSet<Content> = all.iter().chain(&fare).copied().collect();
        assert_eq!(distinct.len(), all.len() + fare.len());
    }

    #[test]
    fn json_is_told_apart_by_what_it_says_and_not_by_its_order() {
        let text = |text: &str| json(&serde_json::from_str(text).unwrap());
        assert_eq!(
            text(r#"{"a":1,"b":[{"c":null,"d":"e"}]}"#),
            text(r#"{ "b":[{"d":"e","c":null}], "a":1 }"#)
        );
        let all = [
            j!({"a": 1}),
            j!({"a": "1"}),
            j!({"a": 1.0}),
            j!({"a": [1]}),
            j!({"a": [[1]]}),
            j!({"a": {}}),
            j!({"a": []}),
            j!({"a": null}),
            j!({}),
            j!([]),
            j!("a"),
            j!({"a": true}),
            j!({"a": 1, "b": 2}),
            j!([["a"], "b"]),
            j!([["a", "b"]]),
        ];
        let distinct: std::collections::BTreeSet<Content> = all.iter().map(json).collect();
        assert_eq!(distinct.len(), all.len());
    }
}

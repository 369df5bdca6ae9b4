//! The manifests in a Work's body.
//!
//! In: the bytes of a body. Out: its manifests as JSON, or why they cannot be had. Pure.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

/// The most manifests of a Work. Those that the hub makes have one; and of objects that say anything, more are not found in a body that
/// the hub's API takes. What is kept of each while it is worked on is many times what `{}` takes in a body.
const MANIFESTS: usize = 5000;

/// The manifests in a body.
///
/// # Errors
/// It is no such body, or holds more manifests than an agent takes of one Work (5000).
pub fn parse_manifests(body: &[u8]) -> Result<Vec<Value>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Body {
        manifests: Bounded,
    }
    let body: Body = serde_json::from_slice(body)?;
    Ok(body.manifests.0)
}

/// Manifests, of which no more are read than [`MANIFESTS`].
struct Bounded(Vec<Value>);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Bounded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of manifests")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bounded, A::Error> {
                let mut manifests = Vec::new();
                while let Some(manifest) = list.next_element()? {
                    if manifests.len() == MANIFESTS {
                        return Err(A::Error::custom(format_args!(
                            "it has more than {MANIFESTS} manifests, which is the most that an agent takes of one Work"
                        )));
                    }
                    manifests.push(manifest);
                }
                Ok(Bounded(manifests))
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_work_of_too_many_manifests_is_refused_in_words() {
        let of = |count| parse_manifests(json!({"manifests": vec![json!({}); count]}).to_string().as_bytes());
        assert_eq!(of(MANIFESTS).unwrap().len(), MANIFESTS);
        let refusal = of(300_000).unwrap_err().to_string();
        assert!(refusal.contains("more than 5000 manifests") && refusal.len() < 300, "{refusal}");
    }
}

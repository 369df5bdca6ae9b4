//! The name that a server makes: `generateName` with a suffix, or an id for a LimitRange without any.
//!
//! In: a new object, and something to draw letters from. Out: the object with its name.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_schema::object::meta;
use serde_json::{Value, json};

use crate::registry_context::RegistryContext;

/// Letters of generated names: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Gives a new object the name that it asks the server to make. After defaulting, which does not see it.
pub(crate) fn name_of_new(context: &RegistryContext, definition: &ResourceDefinition, object: &mut Value) {
    if !meta::name(object).is_empty() {
        return;
    }
    let generate = meta::text(object, "generateName").to_owned();
    let seed = context.new_uid();
    if !generate.is_empty() {
        let name = generated_name(&generate, &seed);
        if definition.row.known == BuiltinKind::Namespace {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
        }
        meta::of(object).insert("name".into(), json!(name));
    } else if definition.row.known == BuiltinKind::LimitRange {
        meta::of(object).insert("name".into(), json!(seed));
    }
}

/// `prefix` and five letters drawn from `seed`, within the length of a name.
pub(crate) fn generated_name(prefix: &str, seed: &str) -> String {
    let letters: String = seed
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .collect::<Vec<u8>>()
        .chunks(4)
        .take(5)
        .map(|chunk| {
            let sum = chunk
                .iter()
                .fold(0usize, |sum, b| sum * 16 + (*b as char).to_digit(16).unwrap_or(0) as usize);
            NAME_LETTERS[sum % NAME_LETTERS.len()] as char
        })
        .collect();
    let kept: String = prefix.chars().take(58).collect();
    format!("{kept}{letters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_drawn_from_the_seed() {
        let name = generated_name("web-", "0123abcd-4567-89ef-0123-456789abcdef");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert!(name[4..].bytes().all(|b| NAME_LETTERS.contains(&b)));
        assert_eq!(generated_name(&"x".repeat(80), "00000000000000000000").len(), 63);
    }
}

//! Texts as they may stand in a path or a query of a request.
//!
//! In: any text. Out: the same, percent-encoded: one segment of a path or one value, whatever is in it.

/// Percent-encodes all but what stands for itself everywhere (RFC 3986, 2.3).
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    // Which alone would be another path.
    if encoded == "." || encoded == ".." { encoded.replace('.', "%2E") } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_it_is_it_stays_one_segment() {
        for (text, encoded) in [
            ("a-b_c.d~e", "a-b_c.d~e"),
            ("a/../b?c=d&e*%", "a%2F..%2Fb%3Fc%3Dd%26e%2A%25"),
            ("system:karmada:a", "system%3Akarmada%3Aa"),
            ("karmada.io/managed=true", "karmada.io%2Fmanaged%3Dtrue"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
        ] {
            assert_eq!(percent_encoded(text), encoded);
        }
    }
}

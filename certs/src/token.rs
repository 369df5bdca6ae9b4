//! Join tokens: `id.secret`, as kubeadm's. The id may be seen; the secret is compared in constant time and
//! never printed by accident.
//!
//! In: a random number generator, or text. Out: a token; text of another shape is refused without being shown. Whether a token is still
//! good is the caller's to know.

use rand::CryptoRng;

use crate::CertError;

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 6;
const SECRET: usize = 16;

/// A join token. `Debug` and `Display` show the id only; [`JoinToken::reveal`] shows it whole.
#[derive(Clone)]
pub struct JoinToken {
    id: String,
    secret: String,
}

impl JoinToken {
    /// A new token drawn from `rng`.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut draw = |len: usize| -> String {
            let mut text = String::with_capacity(len);
            while text.len() < len {
                // 252 is the largest multiple of 36 in a byte: above it, some letters would be likelier.
                let byte = (rng.next_u32() & 0xff) as usize;
                if byte < 252 {
                    text.push(char::from(ALPHABET[byte % ALPHABET.len()]));
                }
            }
            text
        };
        Self { id: draw(ID), secret: draw(SECRET) }
    }

    /// Reads `id.secret`.
    ///
    /// # Errors
    /// It is not 6 and 16 characters of a-z0-9 with a dot between.
    pub fn parse(text: &str) -> Result<Self, CertError> {
        let part = |text: &str, len| text.len() == len && text.bytes().all(|b| ALPHABET.contains(&b));
        match text.split_once('.') {
            Some((id, secret)) if part(id, ID) && part(secret, SECRET) => {
                Ok(Self { id: id.into(), secret: secret.into() })
            }
            _ => Err(CertError::Shape("a join token is 6 and 16 characters of a-z0-9 with a dot between")),
        }
    }

    /// The part that names it: Secret `bootstrap-token-<id>`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret part; for storing it.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// `id.secret`, for the one who asked for it.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// Whether `secret` is this token's, in time that depends on its length only.
    pub fn secret_is(&self, secret: &str) -> bool {
        let (a, b) = (self.secret.as_bytes(), secret.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl std::fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinToken({}.…)", self.id)
    }
}

impl std::fmt::Display for JoinToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.…", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn a_generated_token_parses_and_shows_only_its_id() {
        let mut rng = StdRng::seed_from_u64(1);
        let (one, two) = (JoinToken::generate(&mut rng), JoinToken::generate(&mut rng));
        assert_ne!(one.reveal(), two.reveal());
        let parsed = JoinToken::parse(&one.reveal()).unwrap();
        assert!(parsed.secret_is(one.secret()) && !parsed.secret_is(two.secret()) && !parsed.secret_is(""));
        for shown in [format!("{one:?}"), format!("{one}")] {
            assert!(shown.contains(one.id()) && !shown.contains(one.secret()));
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for bad in [
            "",
            ".",
            "abcdef",
            "abcdef.",
            "abcdef.0123456789abcde",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcdeff",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde!",
            "abcdef-0123456789abcdef",
        ] {
            assert!(JoinToken::parse(bad).is_err(), "{bad}");
        }
        assert!(JoinToken::parse("abcdef.0123456789abcdef").is_ok());
    }
}

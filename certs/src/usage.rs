//! The usages of a CertificateSigningRequest as a certificate says them.
//!
//! Pure. In: `spec.usages`. Out: key usages and extended key usages (RFC 5280, 4.2.1.3 and 4.2.1.12).

use rcgen::{ExtendedKeyUsagePurpose as Extended, KeyUsagePurpose as Key};

use crate::CertError;

enum Usage {
    Key(Key),
    Extended(Extended),
}

/// Both kinds of usages, in the order given, each once.
pub(crate) fn read(usages: &[&str]) -> Result<(Vec<Key>, Vec<Extended>), CertError> {
    let (mut keys, mut extended) = (Vec::new(), Vec::new());
    for usage in usages {
        match one(usage).ok_or(CertError::Malformed("usage of a certificate"))? {
            Usage::Key(key) if !keys.contains(&key) => keys.push(key),
            Usage::Extended(purpose) if !extended.contains(&purpose) => extended.push(purpose),
            _ => {}
        }
    }
    Ok((keys, extended))
}

fn one(usage: &str) -> Option<Usage> {
    let ipsec = |last: u64| Usage::Extended(Extended::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, last]));
    Some(match usage {
        "signing" | "digital signature" => Usage::Key(Key::DigitalSignature),
        "content commitment" => Usage::Key(Key::ContentCommitment),
        "key encipherment" => Usage::Key(Key::KeyEncipherment),
        "key agreement" => Usage::Key(Key::KeyAgreement),
        "data encipherment" => Usage::Key(Key::DataEncipherment),
        "cert sign" => Usage::Key(Key::KeyCertSign),
        "crl sign" => Usage::Key(Key::CrlSign),
        "encipher only" => Usage::Key(Key::EncipherOnly),
        "decipher only" => Usage::Key(Key::DecipherOnly),
        "any" => Usage::Extended(Extended::Any),
        "server auth" => Usage::Extended(Extended::ServerAuth),
        "client auth" => Usage::Extended(Extended::ClientAuth),
        "code signing" => Usage::Extended(Extended::CodeSigning),
        "email protection" | "s/mime" => Usage::Extended(Extended::EmailProtection),
        "ipsec end system" => ipsec(5),
        "ipsec tunnel" => ipsec(6),
        "ipsec user" => ipsec(7),
        "timestamping" => Usage::Extended(Extended::TimeStamping),
        "ocsp signing" => Usage::Extended(Extended::OcspSigning),
        "microsoft sgc" => Usage::Extended(Extended::Other(vec![1, 3, 6, 1, 4, 1, 311, 10, 3, 3])),
        "netscape sgc" => Usage::Extended(Extended::Other(vec![2, 16, 840, 1, 113_730, 4, 1])),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usage_is_said_once_and_an_unknown_one_is_refused() {
        let (keys, extended) = read(&["signing", "digital signature", "server auth", "server auth"]).unwrap();
        assert_eq!((keys, extended), (vec![Key::DigitalSignature], vec![Extended::ServerAuth]));
        assert!(read(&["dance"]).is_err());
    }
}

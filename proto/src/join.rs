//! What a join may say: the bounds of each of its texts.
//!
//! In: a [`JoinRequest`] as it came. Out: nothing, or the refusal to send back. Checked before anything of it is logged, stored or
//! looked up; what it says about the token's secret or the key is for others to judge. Both ends hold to it.

use crate::quote::quoted;
use crate::v1::{JoinRefusal, JoinRefusalCode, JoinRequest};

/// The longest join that is read, in bytes: a request for a certificate is below one kilobyte.
pub const JOIN_LIMIT: usize = 64 << 10;
/// Zones that a cluster may have.
pub const ZONES: usize = 16;
/// A cluster's name: names that are made of it must still be names.
const NAME: usize = 48;
/// A label's value.
const WORD: usize = 63;
/// A request for a certificate.
const CSR: usize = 16 << 10;

/// Checks every text of a join.
///
/// # Errors
/// [`JoinRefusal`]: a text is missing, longer than it may be, or has other letters; its words quote no more of it than fits on a line.
pub fn check(request: &JoinRequest) -> Result<(), JoinRefusal> {
    let name = request.cluster_name.as_str();
    if !is_name(name) {
        let rule = "must be 1 to 48 characters of a-z, 0-9 and inner dashes";
        return Err(refused(
            JoinRefusalCode::NameInvalid,
            &format!("the cluster's name {} {rule}", quoted(name)),
        ));
    }
    if request.cluster_uid.is_empty() {
        return Err(refused(
            JoinRefusalCode::NameInvalid,
            "a join needs the uid of the member's namespace kube-system",
        ));
    }
    let texts = [("uid", &request.cluster_uid), ("provider", &request.provider), ("region", &request.region)];
    let zones = request.zones.iter().map(|zone| ("zone", zone));
    if let Some((what, text)) = texts.into_iter().chain(zones).find(|(_, text)| !is_word(text)) {
        let rule = "must be a label's value: at most 63 of a-z, A-Z, 0-9, '-', '_' and '.', a letter or digit at both ends";
        return Err(refused(
            JoinRefusalCode::NameInvalid,
            &format!("the cluster's {what} {} {rule}", quoted(text)),
        ));
    }
    if request.zones.len() > ZONES {
        let message =
            format!("{} zones are more than the {ZONES} that a cluster may have", request.zones.len());
        return Err(refused(JoinRefusalCode::NameInvalid, &message));
    }
    let version = request.agent_version.as_str();
    if version.len() > WORD || !version.bytes().all(|b| b.is_ascii_alphanumeric() || b"-+._".contains(&b)) {
        return Err(refused(
            JoinRefusalCode::NameInvalid,
            &format!("the agent's version {} is none", quoted(version)),
        ));
    }
    if request.csr.len() > CSR {
        return Err(refused(
            JoinRefusalCode::CsrInvalid,
            "the request for a certificate is larger than 16 KiB",
        ));
    }
    Ok(())
}

/// A refusal. It names nobody.
pub fn refused(code: JoinRefusalCode, message: &str) -> JoinRefusal {
    JoinRefusal { code: code.into(), message: message.to_owned(), holder: String::new() }
}

fn is_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=NAME).contains(&text.len()) && ends(text, letter) && text.bytes().all(|b| letter(b) || b == b'-')
}

/// Whether a join may say this of a provider, a region or a zone: it is a label's value, which may be empty.
pub fn is_word(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= WORD
            && ends(text, letter)
            && text.bytes().all(|b| letter(b) || b"-_.".contains(&b)))
}

fn ends(text: &str, is: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| is(*b)) && bytes.last().is_some_and(|b| is(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join() -> JoinRequest {
        JoinRequest {
            cluster_name: "north".into(),
            cluster_uid: "0b9e4a8e-3f6c-4c5c-9d53-6e9f8f0c7f11".into(),
            provider: "aws".into(),
            region: "eu-central-1".into(),
            zones: vec!["eu-central-1a".into()],
            agent_version: "0.1.0+abc".into(),
            ..JoinRequest::default()
        }
    }

    #[test]
    fn every_text_has_its_bounds() {
        assert_eq!(check(&join()), Ok(()));
        let bare =
            JoinRequest { provider: String::new(), region: String::new(), zones: Vec::new(), ..join() };
        assert_eq!(check(&JoinRequest { agent_version: String::new(), ..bare }), Ok(()));
        let hostile =
            ["a\nINFO all is well", "a b", "-a", "a-", "ä", "\u{0}", &"a".repeat(64), &"a".repeat(1 << 20)];
        for text in hostile.map(str::to_owned) {
            for (what, wrong) in [
                ("name", JoinRequest { cluster_name: text.clone(), ..join() }),
                ("uid", JoinRequest { cluster_uid: text.clone(), ..join() }),
                ("provider", JoinRequest { provider: text.clone(), ..join() }),
                ("region", JoinRequest { region: text.clone(), ..join() }),
                ("zone", JoinRequest { zones: vec!["a".into(), text.clone()], ..join() }),
            ] {
                let refusal = check(&wrong).expect_err(&format!("{what} {}", quoted(&text)));
                assert_eq!(refusal.code(), JoinRefusalCode::NameInvalid);
                assert!(
                    refusal.message.len() < 600 && !refusal.message.contains('\n'),
                    "{}",
                    refusal.message
                );
            }
        }
        for name in ["", "North", "a_b", "a.b", &"a".repeat(49)] {
            assert!(check(&JoinRequest { cluster_name: name.into(), ..join() }).is_err(), "{name}");
        }
        for wrong in [
            JoinRequest { cluster_uid: String::new(), ..join() },
            JoinRequest { zones: vec!["a".into(); 17], ..join() },
            JoinRequest { agent_version: "1\n".into(), ..join() },
            JoinRequest { agent_version: "1".repeat(64), ..join() },
            JoinRequest { csr: vec![0; CSR + 1].into(), ..join() },
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
    }
}

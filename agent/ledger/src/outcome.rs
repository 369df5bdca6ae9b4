//! What an application came to, as it is kept and reported.
//!
//! In: whether all went well, and why not. Out: a condition's reason and message, in upstream's words. Pure.

use karmada_api::strings::conditions as c;
use karmada_proto::one_line;
use karmada_proto::v1::Applied;

/// The outcome of an application, with upstream's reasons. What went wrong is of the member's words, and of as many manifests as there
/// are: it is told on one line, and short.
pub fn outcome(ok: bool, message: &str) -> Applied {
    let (reason, message) = if ok {
        (c::APPLIED_SUCCESSFUL, c::APPLIED_SUCCESSFUL_MESSAGE.to_owned())
    } else {
        (c::APPLIED_FAILED, one_line(message))
    };
    Applied { ok, reason: reason.to_owned(), message, retriable: !ok }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thousand_manifests_failed_over_is_one_short_line() {
        let message = "denied\n\u{1b}[2J2026-01-01 INFO all is well; ".repeat(1000);
        let told = outcome(false, &message).message;
        assert!(
            told.len() < 3000 && told.starts_with("denied  [2J2026") && !told.contains(char::is_control),
            "{told}"
        );
    }
}

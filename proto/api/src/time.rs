//! Times as the API writes them (`metav1.Time`).
//!
//! In: a moment. Out: RFC 3339 in UTC, in whole seconds.

use jiff::Timestamp;

/// A moment as metadata and conditions write it.
pub fn seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

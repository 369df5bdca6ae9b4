//! Texts of an object, read without a copy.
//!
//! In: JSON. Out: a text that is borrowed from it, where nothing in it is escaped.

use std::borrow::Cow;

use serde::Deserialize;

/// A text, borrowed from the JSON where nothing in it is escaped.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

//! The body of an answer.
//!
//! A type alone, so that what makes answers and what passes them on need not know each other.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// A response body: whole, or a stream that may not end.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

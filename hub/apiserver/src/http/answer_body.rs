//! The body of an answer.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// A response body: whole, or a stream that may not end.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

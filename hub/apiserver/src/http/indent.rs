//! Answers for people: JSON with two spaces a level, as Go's `json.MarshalIndent` writes it.
//!
//! In: a body of compact JSON, however it is cut. Out: the same, indented as it is sent, without a newline at the end. Only the
//! depth is remembered, so a list of any length costs nothing.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::BodyExt;

use super::answer_body::Body;
use super::target::Query;

/// Whether a client wants to read the answer itself: by `?pretty`, by its `Accept`, or because it is a browser or a tool for
/// the command line (kube-apiserver's `isPrettyPrint`).
pub(super) fn asked(headers: &HeaderMap, query: &Query) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let in_accept = accepts
        .flat_map(|text| text.split(','))
        .next()
        .is_some_and(|clause| clause.split(';').skip(1).any(|parameter| parameter.trim() == "pretty=1"));
    if in_accept {
        return true;
    }
    match query.get("pretty") {
        "" => {}
        given => return matches!(given, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|reader| agent.starts_with(reader))
}

/// The same answer, indented, where it is JSON.
pub(super) fn indented(response: Response<Body>) -> Response<Body> {
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if media.is_none_or(|media| media.split(';').next() != Some("application/json")) {
        return response;
    }
    let mut response = response.map(|inner| Indented { inner, indent: Indent::default() }.boxed_unsync());
    response.headers_mut().remove(CONTENT_LENGTH);
    response
}

/// Compact JSON with two spaces a level.
pub(super) fn text(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    Indent::default().write(compact, &mut out);
    out
}

/// Where in a document the writer stands.
#[derive(Default)]
struct Indent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// A bracket was opened and nothing stands in it yet.
    opened: bool,
}

impl Indent {
    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }

    fn write(&mut self, compact: &[u8], out: &mut Vec<u8>) {
        for &byte in compact {
            self.byte(byte, out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            out.push(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        if byte.is_ascii_whitespace() {
            return;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        // An empty object stays on its line.
        if std::mem::take(&mut self.opened) != closes {
            self.line(out);
        }
        out.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' => self.line(out),
            b':' => out.push(b' '),
            b'"' => self.in_string = true,
            _ => {}
        }
    }
}

struct Indented {
    inner: Body,
    indent: Indent,
}

impl http_body::Body for Indented {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(frame) = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(frame.map(|frame| {
            frame.map_data(|data| {
                let mut out = Vec::with_capacity(data.len() * 2);
                self.indent.write(&data, &mut out);
                Bytes::from(out)
            })
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_it_is_cut_it_is_what_go_writes() {
        let compact =
            r#"{"a":[],"b":{},"c":[1,"x, {\"y\": [}"],"d":{"e":null,"f":[[true]]}}"#.to_owned() + "\n";
        let wanted = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    \"x, {\\\"y\\\": [}\"\n  ],\n  \"d\": {\n    \"e\": null,\n    \"f\": [\n      [\n        true\n      ]\n    ]\n  }\n}";
        assert_eq!(String::from_utf8(text(compact.as_bytes())).unwrap(), wanted);
        for size in 1..compact.len() {
            let (mut indent, mut out) = (Indent::default(), Vec::new());
            compact.as_bytes().chunks(size).for_each(|piece| indent.write(piece, &mut out));
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "in pieces of {size}");
        }
    }
}

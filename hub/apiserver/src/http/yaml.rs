//! Bodies in YAML. In: a body. Out: the JSON that it stands for, or the refusal; keys that are given twice are told of apart.

use bytes::Bytes;
use karmada_definitions::status::Status;
use karmada_schema::yaml::{self, Document};
use serde_json::Value;

/// What a body may stand for, once its aliases are followed: four times what a body may have.
const MOST: usize = 12 << 20;

/// Reads a body.
pub(super) fn parse(bytes: &Bytes) -> Result<Value, Status> {
    read(bytes).map(|document| document.value)
}

/// Reads a body, and looks for keys given twice.
pub(super) fn read(bytes: &Bytes) -> Result<Document, Status> {
    let text = std::str::from_utf8(bytes).map_err(|_| Status::bad_request("yaml: invalid UTF-8"))?;
    let bad = |error| Status::bad_request(format!("error converting YAML to JSON: {error}"));
    yaml::read_twice_given::<MOST>(text).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_as_kubectl_reads_it_and_refused_as_a_bad_request() {
        let body = Bytes::from_static(b"mode: 0644\nmode: 1e3\n");
        let document = read(&body).unwrap();
        assert_eq!(document.value.to_string(), r#"{"mode":1000}"#);
        assert_eq!(document.twice.as_deref(), Some("line 2: key \"mode\" already set in map"));
        for body in [&b"a: ["[..], b"a: \xff"] {
            assert_eq!(parse(&Bytes::from_static(body)).unwrap_err().code, 400);
        }
    }

    #[test]
    fn aliases_stand_for_no_more_than_a_body_may() {
        let aliases: String = (0..600).map(|at| format!("&n{at} 1, {}", "*a, ".repeat(8))).collect();
        let long = format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(100_000));
        let refused = parse(&long.into()).unwrap_err();
        assert_eq!(refused.code, 400);
        assert!(refused.message.contains("stands for more than 12582912 bytes"), "{}", refused.message);
    }
}

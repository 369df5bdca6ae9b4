//! The form an answer takes, as the client's `Accept` asks: JSON, YAML or protobuf, whole objects, tables or metadata alone.
//!
//! In: the `Accept` headers, and which forms are possible. Out: an [`AnswerFormat`], or a 406. What cannot be understood in a clause makes
//! that clause count for nothing.

use http::HeaderMap;
use karmada_definitions::status::Status;
use karmada_schema::protobuf;

/// What the client can read.
pub(super) const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The version of `meta.k8s.io` that was asked for. What is written in them differs in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    V1,
    V1beta1,
}

impl Meta {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Meta::V1 => "meta.k8s.io/v1",
            Meta::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The objects themselves.
    Whole,
    /// A Table.
    Table(Meta),
    /// `PartialObjectMetadata` or its list.
    Metadata(Meta),
}

impl Shape {
    pub(super) fn is_table(self) -> bool {
        matches!(self, Shape::Table(_))
    }

    pub(super) fn is_metadata(self) -> bool {
        matches!(self, Shape::Metadata(_))
    }
}

/// An answer's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerFormat {
    pub encoding: Encoding,
    pub shape: Shape,
    /// Of metadata alone: whether that of a list was asked for, or of one object.
    pub of_list: Option<bool>,
}

/// What an answer can be.
#[derive(Clone, Copy)]
pub(super) struct Possible {
    /// Whether the kind has that form; metadata alone has it for every kind.
    pub(super) protobuf: bool,
    /// Whether what is answered can be a row of one, which a review cannot.
    pub(super) tables: bool,
}

impl AnswerFormat {
    pub(super) const JSON: AnswerFormat =
        AnswerFormat { encoding: Encoding::Json, shape: Shape::Whole, of_list: None };

    /// The refusal where the metadata of a list was asked for, and this is none, or the other way about. `kind`: the Go type.
    pub(super) fn check_list_form(self, is_list: bool, kind: &str) -> Result<(), Status> {
        let message = match (self.of_list, is_list) {
            (Some(false), true) => {
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{kind}List)"
                )
            }
            (Some(true), false) => {
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{kind})"
                )
            }
            _ => return Ok(()),
        };
        Err(Status { code: 406, reason: "NotAcceptable".into(), message, details: None })
    }

    pub(super) fn content_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => protobuf::CONTENT_TYPE,
        }
    }

    /// The first form of the client's list that is spoken here. Forms with parameters that are not known are passed over, so
    /// that a client that would like more than we have falls back as it planned to.
    pub(super) fn choose(headers: &HeaderMap, possible: Possible) -> Result<AnswerFormat, Status> {
        let Possible { protobuf, tables } = possible;
        let spoken = |format: &AnswerFormat| {
            (format.encoding != Encoding::Protobuf || protobuf || format.shape.is_metadata())
                && (tables || !format.shape.is_table())
        };
        AnswerFormat::first(headers, |clause| read_clause(clause).filter(spoken))
    }

    /// The first in which a whole object may be written, as refusals are: no table, no metadata alone.
    pub(super) fn choose_whole(headers: &HeaderMap) -> Option<AnswerFormat> {
        AnswerFormat::first(headers, |clause| {
            read_clause(clause).filter(|format| format.shape == Shape::Whole)
        })
        .ok()
    }

    fn first(
        headers: &HeaderMap,
        fits: impl Fn(&str) -> Option<AnswerFormat>,
    ) -> Result<AnswerFormat, Status> {
        let texts = headers.get_all(http::header::ACCEPT).iter().filter_map(|header| header.to_str().ok());
        let mut clauses: Vec<&str> =
            texts.flat_map(|text| text.split(',')).map(str::trim).filter(|c| !c.is_empty()).collect();
        if clauses.is_empty() {
            return Ok(AnswerFormat::JSON);
        }
        // Liked best first; as they stand where they are liked alike.
        clauses.sort_by(|a, b| quality(b).total_cmp(&quality(a)));
        clauses.into_iter().find_map(fits).ok_or_else(|| Status::not_acceptable(ACCEPTED))
    }
}

/// The refusal of a client that reads nothing of what is written here, as kube-apiserver's router words it; `None` where only
/// the parameters do not fit.
pub(super) fn routed(headers: &HeaderMap, is_list: bool) -> Option<Status> {
    let accepts = |text: &str| {
        text.split(',').any(|clause| {
            matches!(
                clause.split(';').next().unwrap_or("").trim(),
                "*/*"
                    | "application/*"
                    | "application/json"
                    | "application/yaml"
                    | "application/vnd.kubernetes.protobuf"
            )
        })
    };
    let known = headers.get_all(http::header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).any(accepts);
    let watch = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let more = if is_list { watch } else { "" };
    (!known).then(|| {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}{more}");
        Status::routed(406, "NotAcceptable", message)
    })
}

/// How much a clause of `Accept` is liked, from 0 to 1.
fn quality(clause: &str) -> f32 {
    let given = clause.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    given.and_then(|q| q.parse().ok()).unwrap_or(1.0)
}

fn read_clause(clause: &str) -> Option<AnswerFormat> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        protobuf::CONTENT_TYPE => Encoding::Protobuf,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    let shape = match (kind, group, version) {
        ("", _, _) => Shape::Whole,
        // Anything but whole objects is asked for in a version of this one group.
        (
            "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList",
            "meta.k8s.io",
            "v1" | "v1beta1",
        ) => {
            let meta = if version == "v1" { Meta::V1 } else { Meta::V1beta1 };
            match (kind, encoding, meta) {
                // Cells are of any type: tables have no protobuf form. Nor is the older version written in it.
                ("Table", Encoding::Protobuf, _) | (_, Encoding::Protobuf, Meta::V1beta1) => return None,
                ("Table", ..) => Shape::Table(meta),
                _ => Shape::Metadata(meta),
            }
        }
        _ => return None,
    };
    let of_list = shape.is_metadata().then_some(kind == "PartialObjectMetadataList");
    Some(AnswerFormat { encoding, shape, of_list })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_spoken_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, wanted) in [
            (kubectl, Some((Encoding::Json, Shape::Table(Meta::V1)))),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Some((Encoding::Json, Shape::Table(Meta::V1beta1))),
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Some((Encoding::Json, Shape::Whole))),
            ("application/yaml", Some((Encoding::Yaml, Shape::Whole))),
            ("*/*", Some((Encoding::Json, Shape::Whole))),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Some((Encoding::Protobuf, Shape::Metadata(Meta::V1))),
            ),
            ("text/html", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT, accept.parse().unwrap());
            let chosen = |protobuf| {
                AnswerFormat::choose(&headers, Possible { protobuf, tables: true })
                    .ok()
                    .map(|f| (f.encoding, f.shape))
            };
            assert_eq!(chosen(false), wanted, "{accept}");
            let first = accept.starts_with("application/vnd.kubernetes.protobuf");
            assert_eq!(
                chosen(true).is_some_and(|(encoding, _)| encoding == Encoding::Protobuf),
                first,
                "{accept}"
            );
        }
        let mut headers = HeaderMap::new();
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        headers.insert(http::header::ACCEPT, table.parse().unwrap());
        assert!(
            AnswerFormat::choose(&headers, Possible { protobuf: true, tables: true }).is_err(),
            "cells have no protobuf format"
        );
        headers.insert(http::header::ACCEPT, kubectl.parse().unwrap());
        assert_eq!(
            AnswerFormat::choose(&headers, Possible { protobuf: true, tables: false }).unwrap(),
            AnswerFormat::JSON,
            "a review is no row"
        );
        headers.insert(http::header::ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io".parse().unwrap());
        assert_eq!(
            AnswerFormat::choose(&headers, Possible { protobuf: true, tables: false }).unwrap_err().code,
            406
        );
    }
}

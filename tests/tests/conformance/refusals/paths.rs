//! Paths, queries and answers that do not exist.

use super::{Wrong, refuse, wrong};
use crate::request::Calls as _;
use tests::subject::shared;

const PATHS: &[Wrong] = &[
    wrong(
        "a kind that is not",
        "GET /api/v1/namespaces/NS/widgets",
        "",
        "404 NotFound",
        "the server could not find the requested resource",
    ),
    wrong(
        "a subresource that is not",
        "GET /api/v1/namespaces/NS/configmaps/there/status",
        "",
        "404 NotFound",
        "",
    ),
    wrong(
        "an object that is not",
        "GET /api/v1/namespaces/NS/configmaps/nothing",
        "",
        "404 NotFound",
        "configmaps \"nothing\" not found",
    ),
    wrong("a patch of nothing", "PATCH /api/v1/namespaces/NS/configmaps/nothing", "{}", "404 NotFound", ""),
    wrong(
        "a put of nothing",
        "PUT /api/v1/namespaces/NS/configmaps/nothing",
        r#"{"metadata":{"name":"nothing"}}"#,
        "404 NotFound",
        "configmaps \"nothing\" not found",
    ),
    wrong(
        "a put of another name",
        "PUT /api/v1/namespaces/NS/configmaps/there",
        r#"{"metadata":{"name":"else"}}"#,
        "400 BadRequest",
        "the name of the object (else) does not match the name on the URL (there)",
    ),
    wrong(
        "a post to an object",
        "POST /api/v1/namespaces/NS/configmaps/there",
        "{}",
        "405 MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    ),
    wrong("a put to a collection", "PUT /api/v1/namespaces/NS/configmaps", "{}", "405 MethodNotAllowed", ""),
    wrong("a post across namespaces", "POST /api/v1/configmaps", "{}", "405 MethodNotAllowed", ""),
    wrong("a delete of all namespaces", "DELETE /api/v1/namespaces", "", "405 MethodNotAllowed", ""),
    wrong(
        "a get of a review",
        "GET /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "",
        "405 MethodNotAllowed",
        "",
    ),
    wrong(
        "a selector",
        "GET /api/v1/namespaces/NS/configmaps?labelSelector=a%20in%20(b",
        "",
        "400 BadRequest",
        "unable to parse requirement",
    ),
    wrong(
        "a selector's value",
        "GET /api/v1/namespaces/NS/configmaps?labelSelector=a%3Db%20c",
        "",
        "400 BadRequest",
        "",
    ),
    wrong(
        "a field that is not",
        "GET /api/v1/namespaces/NS/configmaps?fieldSelector=data.a%3Db",
        "",
        "400 BadRequest",
        "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
    wrong(
        "a field selector",
        "GET /api/v1/namespaces/NS/configmaps?fieldSelector=metadata.name",
        "",
        "400 BadRequest",
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    ),
    wrong("a limit", "GET /api/v1/namespaces/NS/configmaps?limit=ten", "", "400 BadRequest", ""),
    wrong("a version", "GET /api/v1/namespaces/NS/configmaps?resourceVersion=x", "", "400 BadRequest", ""),
    wrong(
        "a timeout",
        "GET /api/v1/namespaces/NS/configmaps?watch=1&timeoutSeconds=x",
        "",
        "400 BadRequest",
        "",
    ),
    wrong(
        "a continue token",
        "GET /api/v1/namespaces/NS/configmaps?continue=garbage&limit=1",
        "",
        "400 BadRequest",
        "continue key is not valid",
    ),
    wrong(
        "a match without a version",
        "GET /api/v1/namespaces/NS/configmaps?resourceVersionMatch=Exact",
        "",
        "422 Invalid; FieldValueForbidden resourceVersionMatch",
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    wrong(
        "an unknown match",
        "GET /api/v1/namespaces/NS/configmaps?resourceVersionMatch=About&resourceVersion=1",
        "",
        "422 Invalid; FieldValueNotSupported resourceVersionMatch",
        "",
    ),
    wrong(
        "exactly any",
        "GET /api/v1/namespaces/NS/configmaps?resourceVersionMatch=Exact&resourceVersion=0",
        "",
        "422 Invalid; FieldValueForbidden resourceVersionMatch",
        "",
    ),
    wrong(
        "initial events without a match",
        "GET /api/v1/namespaces/NS/configmaps?watch=1&sendInitialEvents=true",
        "",
        "422 Invalid; FieldValueForbidden resourceVersionMatch",
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
    wrong(
        "a match for a watch",
        "GET /api/v1/namespaces/NS/configmaps?watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan",
        "",
        "422 Invalid; FieldValueForbidden resourceVersionMatch",
        "",
    ),
];

#[test]
fn paths_and_queries_that_mean_nothing_are_refused() {
    refuse("paths", PATHS);
}

#[test]
fn what_a_client_cannot_read_is_not_sent() {
    let subject = shared();
    let caller = subject.caller();
    for accept in ["text/html", "application/xml", "application/json;as=Spreadsheet;v=v1;g=meta.k8s.io"] {
        let answer = caller.get_as("/api/v1/namespaces", accept);
        answer.refusal(406, "NotAcceptable");
    }
    for accept in
        ["*/*", "application/json, text/html;q=0.5", "application/vnd.kubernetes.protobuf,application/json"]
    {
        let answer = caller.get_as("/api/v1/namespaces", accept).is(200);
        assert!(!answer.text.is_empty(), "{accept}");
    }
}

//! What cannot be read: the body, its type, its values' types.

use super::{CM, DEPLOY, PATCH, Wrong, refuse, typed, wrong};

const BODIES: &[Wrong] = &[
    wrong("a truncated body", CM, r#"{"kind":"ConfigMap","meta"#, "400 BadRequest", ""),
    wrong("no body", CM, "", "400 BadRequest", ""),
    wrong("a list", CM, "[]", "400 BadRequest", ""),
    wrong("a number", CM, "7", "400 BadRequest", ""),
    wrong("words", CM, "hello", "400 BadRequest", ""),
    wrong(
        "another kind",
        CM,
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}"#,
        "400 BadRequest",
        "cannot be handled as a ConfigMap",
    ),
    wrong(
        "another version",
        CM,
        r#"{"apiVersion":"v9","kind":"ConfigMap","metadata":{"name":"x"}}"#,
        "400 BadRequest",
        "cannot be handled as a ConfigMap",
    ),
    wrong(
        "another namespace",
        CM,
        r#"{"metadata":{"name":"x","namespace":"other"}}"#,
        "400 BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    wrong(
        "a version on create",
        CM,
        r#"{"metadata":{"name":"x","resourceVersion":"5"}}"#,
        "500 ",
        "resourceVersion should not be set on objects to be created",
    ),
    wrong(
        "a string for a map",
        CM,
        r#"{"metadata":{"name":"x"},"data":"y"}"#,
        "400 BadRequest",
        "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
    ),
    wrong(
        "a number for a string",
        CM,
        r#"{"metadata":{"name":"x"},"data":{"a":1}}"#,
        "400 BadRequest",
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    wrong("a list for metadata", CM, r#"{"metadata":[]}"#, "400 BadRequest", ""),
    wrong(
        "a string for a number",
        DEPLOY,
        r#"{"metadata":{"name":"x"},"spec":{"replicas":"three"}}"#,
        "400 BadRequest",
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    wrong(
        "what is no base64",
        "POST /api/v1/namespaces/NS/secrets",
        r#"{"metadata":{"name":"x"},"data":{"a":"???"}}"#,
        "400 BadRequest",
        "illegal base64 data at input byte 0",
    ),
    wrong(
        "what is no quantity",
        "POST /api/v1/namespaces/NS/resourcequotas",
        r#"{"metadata":{"name":"x"},"spec":{"hard":{"pods":"many"}}}"#,
        "400 BadRequest",
        "quantities must match the regular expression",
    ),
    wrong(
        "what is no time",
        "POST /apis/coordination.k8s.io/v1/namespaces/NS/leases",
        r#"{"metadata":{"name":"x"},"spec":{"renewTime":"yesterday"}}"#,
        "400 BadRequest",
        "parsing time",
    ),
    typed(
        "text/plain",
        wrong(
            "plain text",
            CM,
            "{}",
            "415 UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include:",
        ),
    ),
    typed("application/yaml", wrong("bad YAML", CM, "a: b: c", "400 BadRequest", "")),
    typed(
        "application/vnd.kubernetes.protobuf",
        wrong("bad protobuf", CM, "k8s\0nothing", "400 BadRequest", ""),
    ),
    typed("application/xml", wrong("an unknown patch", PATCH, "{}", "415 UnsupportedMediaType", "")),
    wrong("a patch as JSON", PATCH, "{}", "415 UnsupportedMediaType", ""),
    typed("application/merge-patch+json", wrong("a truncated patch", PATCH, "{", "400 BadRequest", "")),
    typed("application/merge-patch+json", wrong("a list as merge patch", PATCH, "[]", "400 BadRequest", "")),
    typed("application/json-patch+json", wrong("an object as JSON patch", PATCH, "{}", "400 BadRequest", "")),
    typed(
        "application/json-patch+json",
        wrong(
            "a test that fails",
            PATCH,
            r#"[{"op":"test","path":"/data/a","value":"no"}]"#,
            "422 Invalid",
            "",
        ),
    ),
    typed(
        "application/json-patch+json",
        wrong("a path that is not", PATCH, r#"[{"op":"remove","path":"/data/nothing"}]"#, "422 Invalid", ""),
    ),
    typed(
        "application/apply-patch+yaml",
        wrong(
            "apply by nobody",
            PATCH,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"there"}}"#,
            "422 Invalid; FieldValueRequired fieldManager",
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
    ),
    typed(
        "application/merge-patch+json",
        wrong(
            "force without apply",
            "PATCH /api/v1/namespaces/NS/configmaps/there?force=true",
            "{}",
            "422 Invalid; FieldValueForbidden force",
            "may not be specified for non-apply patch",
        ),
    ),
    typed(
        "application/apply-patch+yaml",
        wrong(
            "apply of managed fields",
            "PATCH /api/v1/namespaces/NS/configmaps/there?fieldManager=m",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"there","managedFields":[{"manager":"m"}]}}"#,
            "400 BadRequest",
            "metadata.managedFields must be nil",
        ),
    ),
    typed(
        "application/apply-patch+yaml",
        wrong(
            "apply of another name",
            "PATCH /api/v1/namespaces/NS/configmaps/there?fieldManager=m",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"else"}}"#,
            "400 BadRequest",
            "",
        ),
    ),
    typed(
        "application/apply-patch+yaml",
        wrong(
            "apply of no kind",
            "PATCH /api/v1/namespaces/NS/configmaps/there?fieldManager=m",
            "a: b",
            "400 BadRequest",
            "",
        ),
    ),
];

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    refuse("bodies", BODIES);
}

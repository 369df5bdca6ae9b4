//! Wrong input of every sort: the code, reason and causes that kube-apiserver gives, and nothing stored.

use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;

use crate::request::{Answer, Caller};
use crate::subject::{is_hub, shared};

/// One wrong request. `NS` in paths and bodies is the test's namespace.
#[derive(Clone, Copy)]
struct Wrong {
    what: &'static str,
    request: &'static str,
    content_type: &'static str,
    body: &'static str,
    /// `CODE Reason`, then every cause as `; Reason field`.
    answer: &'static str,
    /// What the message must contain.
    says: &'static str,
}

const fn wrong(
    what: &'static str,
    request: &'static str,
    body: &'static str,
    answer: &'static str,
    says: &'static str,
) -> Wrong {
    Wrong { what, request, content_type: "application/json", body, answer, says }
}

const fn typed(content_type: &'static str, wrong: Wrong) -> Wrong {
    Wrong { content_type, ..wrong }
}

const CM: &str = "POST /api/v1/namespaces/NS/configmaps";
const DEPLOY: &str = "POST /apis/apps/v1/namespaces/NS/deployments";
const PATCH: &str = "PATCH /api/v1/namespaces/NS/configmaps/there";

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

const RULES: &[Wrong] = &[
    wrong(
        "no name",
        CM,
        "{}",
        "422 Invalid; FieldValueRequired metadata.name",
        "name or generateName is required",
    ),
    wrong(
        "a name in capitals",
        CM,
        r#"{"metadata":{"name":"Big"}}"#,
        "422 Invalid; FieldValueInvalid metadata.name",
        "ConfigMap \"Big\" is invalid: metadata.name: Invalid value: \"Big\": a lowercase RFC 1123 subdomain must consist of",
    ),
    wrong(
        "a label with a blank",
        CM,
        r#"{"metadata":{"name":"x","labels":{"a":"b c"}}}"#,
        "422 Invalid; FieldValueInvalid metadata.labels",
        "",
    ),
    wrong(
        "an annotation key",
        CM,
        r#"{"metadata":{"name":"x","annotations":{"a b":"c"}}}"#,
        "422 Invalid; FieldValueInvalid metadata.annotations",
        "",
    ),
    wrong(
        "a finalizer without a domain",
        CM,
        r#"{"metadata":{"name":"x","finalizers":["a b"]}}"#,
        "422 Invalid; FieldValueInvalid metadata.finalizers; FieldValueInvalid metadata.finalizers[0]",
        "",
    ),
    wrong(
        "an owner without a uid",
        CM,
        r#"{"metadata":{"name":"x","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}]}}"#,
        "422 Invalid; FieldValueInvalid metadata.ownerReferences.uid",
        "",
    ),
    wrong(
        "a key with a slash",
        CM,
        r#"{"metadata":{"name":"x"},"data":{"a/b":"c"}}"#,
        "422 Invalid; FieldValueInvalid data[a/b]",
        "",
    ),
    wrong(
        "a namespace that is not",
        "POST /api/v1/namespaces/nowhere/configmaps",
        r#"{"metadata":{"name":"x"}}"#,
        "404 NotFound",
        "namespaces \"nowhere\" not found",
    ),
    wrong(
        "an empty Deployment",
        DEPLOY,
        r#"{"metadata":{"name":"x"}}"#,
        "422 Invalid; FieldValueInvalid spec.template.metadata.labels; FieldValueRequired spec.selector; FieldValueRequired spec.template.spec.containers",
        "",
    ),
    wrong(
        "a selector that selects others",
        DEPLOY,
        r#"{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        "422 Invalid; FieldValueInvalid spec.template.metadata.labels",
        "`selector` does not match template `labels`",
    ),
    wrong(
        "replicas below zero",
        DEPLOY,
        r#"{"metadata":{"name":"x"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        "422 Invalid; FieldValueInvalid spec.replicas",
        "must be greater than or equal to 0",
    ),
    wrong(
        "a Pod without containers",
        "POST /api/v1/namespaces/NS/pods",
        r#"{"metadata":{"name":"x"},"spec":{}}"#,
        "422 Invalid; FieldValueRequired spec.containers",
        "",
    ),
    wrong(
        "a container without image",
        "POST /api/v1/namespaces/NS/pods",
        r#"{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c"}]}}"#,
        "422 Invalid; FieldValueRequired spec.containers[0].image",
        "",
    ),
    wrong(
        "two containers of one name",
        "POST /api/v1/namespaces/NS/pods",
        r#"{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"c","image":"i"}]}}"#,
        "422 Invalid; FieldValueDuplicate spec.containers[1].name",
        "",
    ),
    wrong(
        "a pull policy",
        "POST /api/v1/namespaces/NS/pods",
        r#"{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","imagePullPolicy":"Maybe"}]}}"#,
        "422 Invalid; FieldValueNotSupported spec.containers[0].imagePullPolicy",
        "",
    ),
    wrong(
        "a port too high",
        "POST /api/v1/namespaces/NS/services",
        r#"{"metadata":{"name":"x"},"spec":{"ports":[{"port":70000}]}}"#,
        "422 Invalid; FieldValueInvalid spec.ports[0].port; FieldValueInvalid spec.ports[0].targetPort",
        "must be between 1 and 65535, inclusive",
    ),
    wrong(
        "a Service without ports",
        "POST /api/v1/namespaces/NS/services",
        r#"{"metadata":{"name":"x"},"spec":{}}"#,
        "422 Invalid; FieldValueRequired spec.ports",
        "",
    ),
    wrong(
        "a Job that restarts",
        "POST /apis/batch/v1/namespaces/NS/jobs",
        r#"{"metadata":{"name":"x"},"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"c","image":"i"}]}}}}"#,
        "422 Invalid; FieldValueRequired spec.template.spec.restartPolicy",
        "",
    ),
    wrong(
        "a schedule",
        "POST /apis/batch/v1/namespaces/NS/cronjobs",
        r#"{"metadata":{"name":"x"},"spec":{"schedule":"often","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
        "422 Invalid; FieldValueInvalid spec.schedule",
        "",
    ),
    wrong(
        "an Ingress without rules",
        "POST /apis/networking.k8s.io/v1/namespaces/NS/ingresses",
        r#"{"metadata":{"name":"x"},"spec":{}}"#,
        "422 Invalid; FieldValueInvalid spec",
        "",
    ),
    wrong(
        "a binding to nothing",
        "POST /apis/rbac.authorization.k8s.io/v1/namespaces/NS/rolebindings",
        r#"{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Nobody","name":"x"}}"#,
        "422 Invalid; FieldValueNotSupported roleRef.kind",
        "",
    ),
    wrong(
        "a rule without verbs",
        "POST /apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles",
        r#"{"metadata":{"name":"x"},"rules":[{"apiGroups":[""],"resources":["pods"]}]}"#,
        "422 Invalid; FieldValueRequired rules[0].verbs",
        "",
    ),
    wrong(
        "a bad dry run",
        "POST /api/v1/namespaces/NS/configmaps?dryRun=Some",
        r#"{"metadata":{"name":"x"}}"#,
        "422 Invalid; FieldValueNotSupported dryRun",
        "",
    ),
    wrong(
        "a bad field validation",
        "POST /api/v1/namespaces/NS/configmaps?fieldValidation=Perhaps",
        r#"{"metadata":{"name":"x"}}"#,
        "422 Invalid; FieldValueNotSupported fieldValidation",
        "",
    ),
    wrong(
        "a field manager too long",
        "POST /api/v1/namespaces/NS/configmaps?fieldManager=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        r#"{"metadata":{"name":"x"}}"#,
        "422 Invalid; FieldValueTooLong fieldManager",
        "",
    ),
    wrong(
        "an unknown propagation",
        "DELETE /api/v1/namespaces/NS/configmaps/there",
        r#"{"propagationPolicy":"Sideways"}"#,
        "422 Invalid; FieldValueNotSupported propagationPolicy",
        "",
    ),
    wrong(
        "both propagations",
        "DELETE /api/v1/namespaces/NS/configmaps/there",
        r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
        "422 Invalid; FieldValueInvalid propagationPolicy",
        "",
    ),
];

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

const KARMADA: &[Wrong] = &[
    wrong(
        "a policy without selectors",
        "POST /apis/policy.karmada.io/v1alpha1/namespaces/NS/propagationpolicies",
        r#"{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"name":"x"},"spec":{}}"#,
        "422 Invalid; FieldValueRequired spec.resourceSelectors",
        "",
    ),
    wrong(
        "a policy without a spec",
        "POST /apis/policy.karmada.io/v1alpha1/namespaces/NS/propagationpolicies",
        r#"{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"name":"x"}}"#,
        "422 Invalid; FieldValueRequired spec",
        "",
    ),
    wrong(
        "a policy's enum",
        "POST /apis/policy.karmada.io/v1alpha1/namespaces/NS/propagationpolicies",
        r#"{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"name":"x"},"spec":{"conflictResolution":"Fight","resourceSelectors":[{"apiVersion":"v1","kind":"ConfigMap"}]}}"#,
        "422 Invalid; FieldValueNotSupported spec.conflictResolution",
        "",
    ),
    wrong(
        "a policy's type",
        "POST /apis/policy.karmada.io/v1alpha1/namespaces/NS/propagationpolicies",
        r#"{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"name":"x"},"spec":{"priority":"high","resourceSelectors":[{"apiVersion":"v1","kind":"ConfigMap"}]}}"#,
        "422 Invalid; FieldValueTypeInvalid spec.priority",
        "must be of type integer",
    ),
    wrong(
        "a rebalancer of nothing",
        "POST /apis/apps.karmada.io/v1alpha1/workloadrebalancers",
        r#"{"apiVersion":"apps.karmada.io/v1alpha1","kind":"WorkloadRebalancer","metadata":{"name":"x"},"spec":{"workloads":[]}}"#,
        "422 Invalid; FieldValueInvalid spec.workloads",
        "",
    ),
    wrong(
        "a Cluster without a mode",
        "POST /apis/cluster.karmada.io/v1alpha1/clusters",
        r#"{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","metadata":{"name":"x"},"spec":{}}"#,
        "422 Invalid; FieldValueNotSupported spec.syncMode",
        "",
    ),
    typed(
        "application/strategic-merge-patch+json",
        wrong(
            "a strategic patch of a custom kind",
            "PATCH /apis/policy.karmada.io/v1alpha1/namespaces/NS/propagationpolicies/x",
            "{}",
            "415 UnsupportedMediaType",
            "application/apply-patch+yaml",
        ),
    ),
    wrong(
        "a custom kind without its type",
        "POST /apis/policy.karmada.io/v1alpha1/namespaces/NS/overridepolicies",
        r#"{"metadata":{"name":"x"}}"#,
        "400 BadRequest",
        "Object 'Kind' is missing",
    ),
];

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    refuse("bodies", BODIES);
}

#[test]
fn objects_that_break_rules_are_refused_with_every_cause() {
    refuse("rules", RULES);
}

#[test]
fn paths_and_queries_that_mean_nothing_are_refused() {
    refuse("paths", PATHS);
}

#[test]
fn policies_that_break_rules_are_refused_with_every_cause() {
    if is_hub() {
        refuse("karmada", KARMADA);
    }
}

#[track_caller]
fn refuse(name: &str, table: &[Wrong]) {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace(name);
    let there = format!("/api/v1/namespaces/{namespace}/configmaps");
    caller.post(&there, &json!({"metadata": {"name": "there"}, "data": {"a": "b"}})).is(201);
    let mut different = Vec::new();
    for wrong in table {
        let request = wrong.request.replace("NS", &namespace);
        let (method, path) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let content_type = match (wrong.content_type, method.as_str(), path.contains("nothing")) {
            ("application/json", "PATCH", true) => "application/merge-patch+json",
            (given, ..) => given,
        };
        let headers = [("content-type", content_type)];
        let body = wrong.body.replace("NS", &namespace);
        let answer = caller.send(method, path, &headers, body);
        let (seen, message) = in_short(&answer);
        if seen != wrong.answer || !message.contains(wrong.says) {
            different.push(format!(
                "{}:\n  want {} {}\n  seen {seen} {message}",
                wrong.what, wrong.answer, wrong.says
            ));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), table.len(), different.join("\n"));
    for plural in ["configmaps", "secrets", "services", "pods"] {
        let list = caller.get(&format!("/api/v1/namespaces/{namespace}/{plural}")).is(200).json();
        let names: Vec<&str> =
            list["items"].as_array().unwrap().iter().map(|o| text_at(o, "/metadata/name")).collect();
        let strange = names.iter().find(|name| !matches!(**name, "there" | "kube-root-ca.crt"));
        assert_eq!(strange, None, "something was stored: {plural} {names:?}");
    }
}

fn in_short(answer: &Answer) -> (String, String) {
    let Ok(body) = serde_json::from_str::<Value>(&answer.text) else {
        return (format!("{} no Status", answer.code), answer.text.clone());
    };
    let mut parts = vec![format!("{} {}", answer.code, text_at(&body, "/reason"))];
    let mut causes = answer.causes();
    // A refused value is told once for every rule that it breaks; which rules those are is their own tests' matter.
    causes.dedup();
    parts.extend(causes.into_iter().filter(|cause| cause.trim().contains(' ')));
    (parts.join("; "), text_at(&body, "/message").to_owned())
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

#[test]
fn bodies_that_are_too_large_are_refused() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("large");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = |bytes: usize| json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(bytes)}});
    let refused = caller.post(&path, &object(4 << 20));
    refused.refusal(413, "RequestEntityTooLarge");
    // Within the limit of a body, beyond that of a ConfigMap.
    let refused = caller.post(&path, &object(1_100_000));
    refused.refusal(422, "Invalid");
    assert_eq!(refused.causes(), ["FieldValueTooLong []"]);
    caller.post(&path, &object(900_000)).is(201);
    caller.get("/readyz").is(200);
}

#[test]
fn absurd_bodies_do_not_harm_the_server() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("absurd");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let bodies = [
        format!(r#"{{"metadata":{{"name":"x"}},"data":{}}}"#, deep("[", "]", 200_000)),
        deep(r#"{"a":"#, "1}", 100_000),
        "[".repeat(1_000_000),
        format!(r#"{{"metadata":{{"name":"x","labels":{}}}}}"#, deep(r#"{"a":"#, "}", 50_000)),
        format!("\"{}\"", "\\u0000".repeat(100_000)),
        format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"a\":{}}}}}", "9".repeat(100_000)),
        "1e999999999".to_owned(),
    ];
    for body in &bodies {
        let short: String = body.chars().take(40).collect();
        // As YAML a number may be a word of many digits.
        let words = body.contains("99999");
        for content_type in
            if words { &["application/json"][..] } else { &["application/json", "application/yaml"] }
        {
            let answer = caller.send(Method::POST, &path, &[("content-type", content_type)], body.as_bytes());
            assert!(
                (400..500).contains(&answer.code),
                "{short} as {content_type}: {} {}",
                answer.code,
                answer.text
            );
        }
        if words {
            continue;
        }
        let apply = format!("{path}/x?fieldManager=m");
        let answer = caller.send(
            Method::PATCH,
            &apply,
            &[("content-type", "application/apply-patch+yaml")],
            body.as_bytes(),
        );
        assert!((400..500).contains(&answer.code), "{short} applied: {} {}", answer.code, answer.text);
    }
    yaml_bombs(&caller, &path);
    for bytes in [&b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"[..], b"\xff\xfe", b"\0\0\0\0"] {
        let answer = caller.send(Method::POST, &path, &[("content-type", "application/json")], bytes);
        assert!(matches!(answer.code, 400 | 422), "{bytes:?}: {} {}", answer.code, answer.text);
    }
    let odd = ["configmaps/%00", "configmaps/..%2f..%2fsecrets", "configmaps/%ff", "configmaps/a%20b"];
    for path in odd {
        let answer = caller.get(&format!("/api/v1/namespaces/{namespace}/{path}"));
        assert!((400..500).contains(&answer.code), "{path}: {} {}", answer.code, answer.text);
    }
    let selector = format!("{path}?labelSelector={}", "a%3Db,".repeat(4000) + "a%3Db");
    assert!(matches!(caller.get(&selector).code, 200 | 400 | 414 | 431), "a long selector");
    caller.get("/readyz").is(200);
    let names = caller.get(&path).is(200).json();
    assert!(names["items"].as_array().unwrap().iter().all(|o| o["metadata"]["name"] != "x"), "{names}");
}

/// Aliases that unfold to gigabytes.
fn yaml_bombs(caller: &Caller, path: &str) {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let of = format!("*a{}", n - 1);
        let line = [of.as_str(); 10].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{line}]\n"));
    }
    bomb.push_str("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = caller.send(Method::PATCH, &format!("{path}/x?fieldManager=m"), &headers, bomb.as_bytes());
    assert!((400..500).contains(&answer.code), "{} {}", answer.code, answer.text);
}

#[test]
fn what_may_not_change_does_not() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("fixed");
    let core = format!("/api/v1/namespaces/{namespace}");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let template = |label: &str| json!({"metadata": {"labels": {"a": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template("b")}});
    caller.post(&deployments, &deployment).is(201);
    caller
        .post(
            &format!("{core}/secrets"),
            &json!({"metadata": {"name": "s"}, "type": "Opaque", "immutable": true}),
        )
        .is(201);
    caller
        .post(
            &format!("{core}/configmaps"),
            &json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "b"}}),
        )
        .is(201);
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    caller.post(&jobs, &job).is(201);
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    caller.post(&bindings, &binding).is(201);
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": template("c")}});
    for (path, patch, causes) in [
        (format!("{deployments}/d"), selector, "FieldValueInvalid spec.selector"),
        (format!("{core}/secrets/s"), json!({"type": "other"}), "FieldValueInvalid type"),
        (format!("{core}/secrets/s"), json!({"data": {"a": "Yg=="}}), "FieldValueForbidden data"),
        (format!("{core}/configmaps/c"), json!({"data": {"a": "c"}}), "FieldValueForbidden data"),
        (format!("{jobs}/j"), json!({"spec": {"completions": 5}}), "FieldValueInvalid spec.completions"),
        (format!("{bindings}/b"), json!({"roleRef": {"name": "edit"}}), "FieldValueInvalid roleRef"),
    ] {
        let answer = caller.patch("merge", &path, &patch);
        answer.refusal(422, "Invalid");
        assert!(answer.causes().contains(&causes.to_owned()), "{path}: {:?}", answer.causes());
    }
    let another = json!({"metadata": {"name": "c", "uid": "another"}, "immutable": true, "data": {"a": "b"}});
    caller.put(&format!("{core}/configmaps/c"), &another).refusal(409, "Conflict");
    // What the server owns is kept without a word.
    let kept = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99}});
    let patched = caller.patch("merge", &format!("{deployments}/d"), &kept).is(200).json();
    assert!(!text_at(&patched, "/metadata/creationTimestamp").starts_with("2001"), "{patched}");
    assert!(patched["metadata"].get("deletionTimestamp").is_none(), "{patched}");
    assert_eq!(patched["metadata"]["generation"], 1, "{patched}");
}

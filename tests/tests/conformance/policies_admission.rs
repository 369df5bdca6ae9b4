//! ValidatingAdmissionPolicies: rules in CEL, their bindings and parameters, as every client meets them.

use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::access::{certificate, grant, user};
use crate::request::{Caller, Calls as _};
use tests::subject::shared;

const API: &str = "admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["matchConstraints"] = json!({"resourceRules": [
        {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    json!({"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

/// Puts the policy in force for the namespace of the same name.
fn binding(name: &str, more: &Value) -> Value {
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"judged": name}}}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec})
}

fn namespace(caller: &Caller, name: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"judged": name, "team": "red"}}});
    caller.post("/api/v1/namespaces", &object).is(201);
    format!("/api/v1/namespaces/{name}/configmaps")
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Installs both and waits until a probe meets them.
#[track_caller]
fn install(caller: &Caller, policy: &Value, binding: &Value, path: &str, bad: &Value) {
    caller.post(POLICIES, policy).is(201);
    caller.post(BINDINGS, binding).is(201);
    eventually("the policy to be in force", TIMEOUT, || {
        let answer = caller.post(&format!("{path}?dryRun=All"), &map("probe", bad));
        so(answer.code != 201 || !answer.warnings().is_empty(), || answer.text.clone())
    });
}

fn remove(caller: &Caller, name: &str) {
    caller.delete(&format!("{BINDINGS}/{name}"), &Value::Null).is(200);
    caller.delete(&format!("{POLICIES}/{name}"), &Value::Null).is(200);
}

#[test]
fn what_a_rule_refuses_is_told_as_it_says() {
    let subject = shared();
    let caller = subject.caller();
    let path = namespace(&caller, "judged-rules");
    let policy = policy(
        "judged-rules",
        &json!({
            "matchConditions": [{"name": "not-free", "expression": "object.metadata.name != 'free'"}],
            "variables": [
                {"name": "data", "expression": "has(object.data) ? object.data : {}"},
                {"name": "size", "expression": "size(variables.data)"},
            ],
            "validations": [
                {"expression": "variables.size < 3", "messageExpression": "'too many: ' + string(variables.size)"},
                {"expression": "!('secret' in variables.data)", "message": "no secrets here", "reason": "Forbidden"},
                {"expression": "namespaceObject.metadata.labels['team'] == 'red' && request.operation != 'DELETE'"},
                {"expression": "!('odd' in variables.data) || object.data.none == 'x'"},
                {"expression": "authorizer.requestResource.check('create').allowed() && authorizer.group('').resource('pods').namespace('default').check('list').allowed()"},
            ],
        }),
    );
    let bad = json!({"secret": "1"});
    install(&caller, &policy, &binding("judged-rules", &json!({})), &path, &bad);
    let start = "ValidatingAdmissionPolicy 'judged-rules' with binding 'judged-rules' denied request";
    let refused = caller.post(&path, &map("a", &bad));
    let message = refused.refusal(403, "Forbidden");
    assert_eq!(message, format!("configmaps \"a\" is forbidden: {start}: no secrets here"));
    assert_eq!(
        refused.json()["details"]["causes"],
        json!([{"message": format!("{start}: no secrets here")}])
    );
    let message =
        caller.post(&path, &map("a", &json!({"a": "1", "b": "2", "c": "3"}))).refusal(422, "Invalid");
    assert_eq!(message, format!("configmaps \"a\" is forbidden: {start}: too many: 3"));
    let message = caller.post(&path, &map("a", &json!({"odd": "1"}))).refusal(422, "Invalid");
    let source = "!('odd' in variables.data) || object.data.none == 'x'";
    let wanted = format!(
        "configmaps \"a\" is forbidden: {start}: expression '{source}' resulted in error: no such key: none"
    );
    assert_eq!(message, wanted);
    caller.post(&path, &map("free", &bad)).is(201);
    caller.post(&path, &map("a", &json!({"a": "1"}))).is(201);
    caller.patch("merge", &format!("{path}/a"), &json!({"data": bad})).refusal(403, "Forbidden");
    remove(&caller, "judged-rules");
}

#[test]
fn parameters_come_from_objects() {
    let subject = shared();
    let caller = subject.caller();
    let path = namespace(&caller, "judged-params");
    caller.post(&path, &map("limits", &json!({"most": "1"}))).is(201);
    let policy = policy(
        "judged-params",
        &json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "size(object.data) <= int(params.data.most)", "message": "above the limit"}],
        }),
    );
    let reference = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let bad = json!({"a": "1", "b": "2"});
    install(&caller, &policy, &binding("judged-params", &reference), &path, &bad);
    let start = "ValidatingAdmissionPolicy 'judged-params' with binding 'judged-params' denied request";
    let message = caller.post(&path, &map("a", &bad)).refusal(422, "Invalid");
    assert_eq!(message, format!("configmaps \"a\" is forbidden: {start}: above the limit"));
    caller.post(&path, &map("a", &json!({"a": "1"}))).is(201);
    caller.delete(&format!("{path}/limits"), &Value::Null).is(200);
    eventually("the parameters to be missed", TIMEOUT, || {
        let answer = caller.post(&format!("{path}?dryRun=All"), &map("b", &json!({"a": "1"})));
        let wanted = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
        so(answer.text.contains(wanted), || answer.text.clone())
    });
    remove(&caller, "judged-params");
}

#[test]
fn a_binding_may_only_warn() {
    let subject = shared();
    let caller = subject.caller();
    let path = namespace(&caller, "judged-warn");
    let policy = policy("judged-warn", &json!({"validations": [{"expression": "!has(object.data)"}]}));
    let more = json!({"validationActions": ["Warn", "Audit"]});
    install(&caller, &policy, &binding("judged-warn", &more), &path, &json!({"a": "1"}));
    let made = caller.post(&path, &map("a", &json!({"a": "1"}))).is(201);
    assert_eq!(
        made.warnings(),
        [
            "Validation failed for ValidatingAdmissionPolicy 'judged-warn' with binding 'judged-warn': failed expression: !has(object.data)"
        ]
    );
    remove(&caller, "judged-warn");
}

#[test]
fn policies_are_judged_when_they_come() {
    let subject = shared();
    let caller = subject.caller();
    let object = policy(
        "wrong",
        &json!({
            "variables": [{"name": "a", "expression": "object.x =="}, {"name": "b", "expression": "variables.c"}],
            "validations": [
                {"expression": "params.x == 1"}, {"expression": "'text'"}, {"expression": "true", "reason": "Odd"},
                {"expression": "variables.b == 1", "messageExpression": "1"},
            ],
            "auditAnnotations": [{"key": "k", "valueExpression": "nobody"}],
        }),
    );
    let refused = caller.post(POLICIES, &object);
    refused.refusal(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [
            "FieldValueInvalid spec.auditAnnotations[0].valueExpression",
            "FieldValueInvalid spec.validations[0].expression",
            "FieldValueInvalid spec.validations[1].expression",
            "FieldValueInvalid spec.validations[3].messageExpression",
            "FieldValueInvalid spec.variables[0].expression",
            "FieldValueInvalid spec.variables[1].expression",
            "FieldValueNotSupported spec.validations[2].reason",
        ]
    );
    let refused = caller.post(BINDINGS, &binding("wrong", &json!({"validationActions": ["Deny", "Warn"]})));
    refused.refusal(422, "Invalid");
    assert_eq!(refused.causes(), ["FieldValueInvalid spec.validationActions"]);
}

#[test]
fn what_expressions_name_that_is_not_there_is_told() {
    let subject = shared();
    let caller = subject.caller();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({"metadata": {"name": "types.example.com"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]},
        "validations": [{"expression": "object.spec.replicas > 1"}, {"expression": "object.replicas > 1"}]}});
    caller.post(policies, &policy).is(201);
    let place = format!("{policies}/types.example.com");
    let status = eventually("the types to be looked at", TIMEOUT, || {
        let status = caller.get(&place).is(200).json()["status"].clone();
        so(status["observedGeneration"] == 1, || status.to_string())?;
        Ok(status)
    });
    assert_eq!(
        status["typeChecking"]["expressionWarnings"],
        json!([{"fieldRef": "spec.validations[1].expression", "warning":
            "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"}])
    );
    let right = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    caller.patch("merge", &place, &right).is(200);
    eventually("the warning to go", TIMEOUT, || {
        let status = caller.get(&place).is(200).json()["status"].clone();
        so(status["observedGeneration"] == 2 && status["typeChecking"] == json!({}), || status.to_string())
    });
    caller.delete(&place, &Value::Null).is(200);
}

/// A policy shows its parameters to whoever it judges.
#[test]
fn who_names_parameters_may_read_them() {
    let subject = shared();
    let admin = subject.caller();
    let (own, other) = (subject.namespace("own"), subject.namespace("other"));
    let (name, ruler) = (own.clone(), format!("{own}-ruler"));
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let (admission, all) = (["admissionregistration.k8s.io"], ["create", "get", "update", "patch", "delete"]);
    let rule = json!({"apiGroups": admission, "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        "verbs": all});
    admin
        .post(&format!("{roles}/clusterroles"), &json!({"metadata": {"name": name}, "rules": [rule]}))
        .is(201);
    grant(&admin, "", &name, &name, &user(&ruler));
    let role = json!({"metadata": {"name": "maps"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    admin.post(&format!("{roles}/namespaces/{own}/roles"), &role).is(201);
    let held = json!({"metadata": {"name": "maps"}, "subjects": [user(&ruler)],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}});
    admin.post(&format!("{roles}/namespaces/{own}/rolebindings"), &held).is(201);
    let caller = admin.with(certificate(&subject, &ruler, &["people"]));
    let rules = json!({"validations": [{"expression": "true"}]});
    let of_kind = |api_version: &str, kind: &str| {
        let mut spec = rules.clone();
        spec["paramKind"] = json!({"apiVersion": api_version, "kind": kind});
        policy(&name, &spec)
    };
    for (api_version, kind) in [("v1", "Secret"), ("v1", "ConfigMap"), ("nowhere.example.com/v1", "Nothing")]
    {
        let refused = caller.post(POLICIES, &of_kind(api_version, kind));
        let message = refused.refusal(422, "Invalid");
        let (start, rest) = message.split_once("X509SHA256=").unwrap();
        let (_, end) = rest.split_once(']').unwrap();
        assert_eq!(
            format!("{start}X]{end}"),
            format!(
                "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"{name}\" is invalid: spec.paramKind: Forbidden: \
                 user &{{{ruler}  [people system:authenticated] map[authentication.kubernetes.io/credential-id:[X]]}} must have \
                 \"get\" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={api_version})"
            )
        );
    }
    caller.post(POLICIES, &policy(&name, &rules)).is(201);
    let place = format!("{POLICIES}/{name}");
    let change = |kind: &str| json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": kind}}});
    caller.patch("merge", &place, &change("Secret")).refusal(422, "Invalid");
    admin.patch("merge", &place, &change("ConfigMap")).is(200);
    caller.patch("merge", &place, &json!({"metadata": {"labels": {"a": "b"}}})).is(200);
    let bind = |reference: Value| {
        let mut reference = reference;
        reference["parameterNotFoundAction"] = json!("Allow");
        caller.post(&format!("{BINDINGS}?dryRun=All"), &binding(&name, &json!({"paramRef": reference})))
    };
    bind(json!({"name": "a", "namespace": own})).is(201);
    for (reference, verb) in [
        (json!({"name": "a", "namespace": other}), "get"),
        (json!({"name": "a"}), "get"),
        (json!({"selector": {}, "namespace": own}), "list"),
    ] {
        let refused = bind(reference);
        assert_eq!(refused.causes(), ["FieldValueForbidden spec.paramRef"]);
        let message = refused.refusal(422, "Invalid");
        assert!(message.contains(&format!("does not have \"{verb}\" permission")), "{message}");
    }
    admin.delete(&place, &Value::Null).is(200);
}

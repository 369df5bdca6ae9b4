//! Karmada's kinds, as their schemas and webhooks refuse them.

use super::{Wrong, refuse, typed, wrong};
use tests::subject::is_hub;

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
fn policies_that_break_rules_are_refused_with_every_cause() {
    if is_hub() {
        refuse("karmada", KARMADA);
    }
}

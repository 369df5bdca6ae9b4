//! Recorded answers to kinds of the fleet whose rules are rows: FederatedHPA, MultiClusterIngress, MultiClusterService,
//! ResourceInterpreterWebhookConfiguration.

use karmada_api::admission::{self, Context, Operation};
use karmada_kinds::kind::Kind;
use serde_json::{Value, json};

use super::vectors::{BESIDE, Differences, Verdict, compare, run};

const BY_THE_REGISTRY: &str = "namespace and resourceVersion are the registry's to say";
const STATUS: &str = "a status is judged where it is written, and nothing writes this one yet";
const BY_THE_SCHEMA: &str = "the schema says it first, in its own words";
const TWICE: &str = "what never changes is said as often as kube-apiserver says it of custom kinds";
const NEWER_WORDS: &str =
    "refused as a HorizontalPodAutoscaler of this Kubernetes version is, whose words are newer";
const NEWER_ADDRESS: &str =
    "refused as in the status of an Ingress of this Kubernetes version, whose words are newer";
const GROUPLESS: &str = "a target outside the core group without a group scales nothing: it is refused, as of a HorizontalPodAutoscaler";

const DIFFERENCES: Differences = &[
    (44, BY_THE_REGISTRY),
    (60, BY_THE_SCHEMA),
    (71, TWICE),
    (72, NEWER_ADDRESS),
    (74, BY_THE_REGISTRY),
    (82, BY_THE_SCHEMA),
    (95, STATUS),
    (102, NEWER_WORDS),
    (106, NEWER_WORDS),
    (107, NEWER_WORDS),
    (112, GROUPLESS),
    (116, NEWER_WORDS),
    (117, NEWER_WORDS),
    (124, BY_THE_SCHEMA),
    (130, NEWER_WORDS),
    (250, BY_THE_SCHEMA),
];

const GO_EMPTIES: &str =
    "Go's types write an empty text that must be there, and no empty list or text that need not";

const DEFAULTS: Differences = &[(159, GO_EMPTIES), (171, GO_EMPTIES), (189, GO_EMPTIES)];

/// What is wrong with an object, once it has its defaults.
fn told(group: &str, case: &Value) -> Vec<String> {
    let name = case["object"]["kind"].as_str().unwrap();
    let kind = Kind::builtin(group, "v1alpha1", name).unwrap();
    let mut object = case["object"].clone();
    kind.default(&mut object);
    let old = case.get("old").filter(|old| !old.is_null());
    kind.validate(&object, old).unwrap().iter().map(ToString::to_string).collect()
}

/// What is filled in of an object, beside what the schema says.
#[test]
fn recorded_defaults_of_federated_hpas() {
    run("validation.json", "recorded_defaults_of_federated_hpas", DEFAULTS, |case| {
        if case["webhook"] != "mutate FederatedHPA" {
            return Verdict::Skip(BESIDE);
        }
        let kind = Kind::builtin("autoscaling.karmada.io", "v1alpha1", "FederatedHPA").unwrap();
        let mut object = case["object"].clone();
        (kind.row.drop_disabled_fields)(&mut object, None);
        compare(&case["result"]["spec"], &object["spec"])
    });
}

#[test]
fn recorded_ids_of_multi_cluster_services() {
    run("validation.json", "recorded_ids_of_multi_cluster_services", &[], |case| {
        if case["webhook"] != "mutate MultiClusterService" {
            return Verdict::Skip(BESIDE);
        }
        let mut object = case["object"].clone();
        let context = Context {
            now: jiff::Timestamp::UNIX_EPOCH,
            new_uuid: &|| "UUID".to_owned(),
            grades: Default::default(),
        };
        let group = karmada_api::NETWORKING_GROUP;
        admission::mutate(group, "MultiClusterService", Operation::Create, &mut object, None, &context);
        compare(&case["result"]["metadata"], &object["metadata"])
    });
}

#[test]
fn recorded_answers_to_kinds_of_the_fleet() {
    run("validation.json", "recorded_answers_to_kinds_of_the_fleet", DIFFERENCES, |case| {
        let group = match case["webhook"].as_str().unwrap() {
            "validate FederatedHPA" => "autoscaling.karmada.io",
            "validate MultiClusterIngress" | "validate MultiClusterService" => "networking.karmada.io",
            "validate ResourceInterpreterWebhookConfiguration" => "config.karmada.io",
            _ => return Verdict::Skip(BESIDE),
        };
        let words = told(group, case);
        let told = if words.len() == 1 { words[0].clone() } else { format!("[{}]", words.join(", ")) };
        match case["messageOneOf"].as_array() {
            None => compare(&json!("[]"), &json!(told)),
            Some(wanted) if wanted.contains(&json!(told)) => Verdict::Agrees,
            Some(wanted) => compare(&wanted[0], &json!(told)),
        }
    });
}

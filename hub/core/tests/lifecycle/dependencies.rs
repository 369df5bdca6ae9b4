//! What follows a workload: attached bindings, as recorded, and what is decided otherwise.

use std::collections::BTreeMap;

use karmada_api::binding::{BindingSnapshot, BindingSpec, ObjectReference, ResourceBinding};
use karmada_api::strings::labels;
use karmada_core::dependencies::agreement::{DependencyPreferences, agree};
use karmada_core::dependencies::attached::{
    Attach, Change, Left, attach, built, clusters, detach, list, unlist,
};
use karmada_core::dependencies::recorded::{self as note, Candidate};
use karmada_core::dependencies::{DependencyCandidates, label_key, reach, wanted};
use karmada_interpreter::DependentObject;
use serde_json::{Value, json};

use crate::recorded::{self, BESIDE, Differences, Verdict, compare};
use crate::without_nulls;

const TWICE: &str = "a referrer that is told twice is listed once";
const GONE: &str = "recorded bug: one listed referrer that is gone stops all others; here it is taken out";
const AS_READ: &str = "the referrer that was just read decides for itself, not an older state of it";
const ELSEWHERE: &str =
    "recorded bug: what is in another namespace, or in none, would follow; here it is refused";
const UNLABELLED: &str = "recorded bug: a referrer that is listed and not labelled with its present id stays for ever; here it is let go of";
const UNSEEN: &str = "a key of Karmada's memory that nobody sees";
const EMPTY: &str = "no list of dependencies and an empty one are the same here";

const LEAVING: &str = "recorded bug: a workload that leaves gracefully runs on without what follows it; here that stays as long";

const TOO_LONG: &str =
    "a binding's name that no API server takes: it is cut, and ends in a hash of the whole";

const DIFFERENCES: Differences = &[
    (187, LEAVING),
    (193, ELSEWHERE),
    (194, ELSEWHERE),
    (198, TOO_LONG),
    (209, TWICE),
    (308, GONE),
    (309, GONE),
    (310, AS_READ),
    (317, AS_READ),
    (323, UNLABELLED),
    (324, UNLABELLED),
    (327, GONE),
    (329, GONE),
    (334, EMPTY),
    (347, ELSEWHERE),
];

fn read<T: serde::de::DeserializeOwned + Default>(value: &Value) -> T {
    serde_json::from_value::<Option<T>>(value.clone()).unwrap().unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

/// A binding as it is recorded, without what its kind alone tells.
fn shown(binding: &ResourceBinding) -> Value {
    let mut value = serde_json::to_value(binding).unwrap();
    for field in ["apiVersion", "kind", "status"] {
        value.as_object_mut().unwrap().remove(field);
    }
    trimmed(value)
}

/// Without `null` and what is empty in metadata and spec: there it is the same as nothing.
fn trimmed(value: Value) -> Value {
    let mut value = without_nulls(value);
    for part in ["metadata", "spec"] {
        let Some(fields) = value[part].as_object_mut() else { continue };
        fields.retain(|name, field| {
            let empty = field.as_object().is_some_and(serde_json::Map::is_empty)
                || field.as_array().is_some_and(Vec::is_empty);
            !empty || name == "placement"
        });
    }
    value
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    read(&object["metadata"]["labels"])
}

fn candidate<'a>(object: &'a Value, labels: &'a BTreeMap<String, String>) -> Candidate<'a> {
    let metadata = &object["metadata"];
    Candidate {
        kind: text(object, "kind"),
        namespace: text(metadata, "namespace"),
        name: text(metadata, "name"),
        uid: text(metadata, "uid"),
        resource_version: text(metadata, "resourceVersion"),
        labels,
    }
}

fn reference(object: &Value) -> ObjectReference {
    candidate(object, &labels_of(object)).reference(text(object, "apiVersion"))
}

/// The bindings of a case, by namespace and name.
struct Stored(BTreeMap<(String, String), ResourceBinding>);

impl Stored {
    fn of(list: &Value) -> Self {
        let all: Vec<ResourceBinding> = read(list);
        Stored(all.into_iter().map(|one| ((one.namespace().into(), one.name().into()), one)).collect())
    }

    fn put(&mut self, binding: ResourceBinding) {
        self.0.insert((binding.namespace().into(), binding.name().into()), binding);
    }

    fn wish(&self, namespace: &str, name: &str) -> Option<DependencyPreferences> {
        self.0.get(&(namespace.into(), name.into())).map(|binding| DependencyPreferences::of(&binding.spec))
    }

    /// Enters a referrer in the binding of an object; the events, or the error.
    fn attach(&mut self, referrer: &ResourceBinding, object: &ObjectReference) -> Result<Vec<Value>, String> {
        let name = karmada_api::names::binding_name(&object.kind, &object.name);
        let existing = self.0.get(&(referrer.namespace().into(), name));
        let Attach { change, dispute } =
            attach(existing, referrer, object, &|namespace, name| self.wish(namespace, name))
                .map_err(|error| error.to_string())?;
        match change {
            Change::Create(binding) | Change::Update(binding) => self.put(*binding),
            Change::Nothing => {}
        }
        Ok(dispute.iter().map(|words| json!(format!("Warning DependencyPolicyConflict {words}"))).collect())
    }

    fn detach(&mut self, namespace: &str, name: &str, attached: &(String, String)) {
        let others =
            |at: &str, who: &str| (at, who).ne(&(namespace, name)).then(|| self.wish(at, who)).flatten();
        let existing = self.0.get(attached).unwrap();
        if let Some(binding) = detach(existing, namespace, name, &others, Left::Otherwise) {
            self.put(binding);
        }
    }

    /// The attached bindings that list or label a referrer.
    fn attached_to(&self, namespace: &str, name: &str) -> Vec<(String, String)> {
        let key = label_key(namespace, name);
        let attached = |binding: &&ResourceBinding| {
            binding.label(&key).is_some()
                || binding.spec.required_by.iter().any(|of| of.namespace == namespace && of.name == name)
        };
        self.0.values().filter(attached).map(|of| (of.namespace().into(), of.name().into())).collect()
    }

    /// What a case has afterwards.
    fn verdict(&self, case: &Value, events: &[Value], error: Option<&str>) -> Verdict {
        if error.is_some() != case["error"].is_string() {
            return Verdict::Differs(format!("wanted the error {}, got {error:?}", case["error"]));
        }
        let all: Vec<Value> = self.0.values().map(shown).collect();
        let wanted: Vec<Value> = case["bindings"].as_array().unwrap().iter().cloned().map(trimmed).collect();
        let events: Vec<Value> = match error {
            // Its words are ours.
            Some(_) => case["events"].as_array().unwrap().clone(),
            None => events.to_vec(),
        };
        compare(
            &json!({"bindings": wanted, "events": case["events"]}),
            &json!({"bindings": all, "events": events}),
        )
    }
}

fn attaching(case: &Value) -> Verdict {
    let mut stored = Stored::of(&case["before"]);
    let referrer: ResourceBinding = serde_json::from_value(case["binding"].clone()).unwrap();
    let outcome = stored.attach(&referrer, &reference(&case["object"]));
    stored.verdict(case, &outcome.clone().unwrap_or_default(), outcome.err().as_deref())
}

fn detaching(case: &Value) -> Verdict {
    let (namespace, name) = (text(case, "namespace"), text(case, "name"));
    let mut stored = Stored::of(&case["before"]);
    for attached in stored.attached_to(namespace, name) {
        stored.detach(namespace, name, &attached);
    }
    stored.verdict(case, &[], None)
}

/// The kinds that a case serves.
const SERVED: [&str; 8] = [
    "Pod",
    "Secret",
    "ConfigMap",
    "Service",
    "ServiceAccount",
    "PersistentVolumeClaim",
    "Deployment",
    "EndpointSlice",
];

fn syncing(case: &Value) -> Verdict {
    let at = (text(case, "namespace").to_owned(), text(case, "name").to_owned());
    let mut stored = Stored::of(&case["before"]);
    let before = stored.0[&at].clone();
    let dependencies: Vec<DependentObject> = read(&case["dependencies"]);
    let noted = note::noted(&before, Some(&dependencies));
    let mut referrer = noted.unwrap_or(before);
    // The finalizer is recorded apart.
    referrer.metadata.finalizers = None;
    stored.put(referrer.clone());
    let objects: Vec<(Value, BTreeMap<String, String>)> = case["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| (object.clone(), labels_of(object)))
        .collect();
    let sights: Vec<DependencyCandidates<'_>> = dependencies
        .iter()
        .map(|dependency| {
            let near = |(object, _): &&(Value, BTreeMap<String, String>)| {
                object["kind"] == dependency.kind && object["metadata"]["namespace"] == dependency.namespace
            };
            let found = objects.iter().filter(near).map(|(object, labels)| candidate(object, labels));
            let served = SERVED.contains(&dependency.kind.as_str());
            DependencyCandidates { dependency, found: served.then(|| found.collect()) }
        })
        .collect();
    let wanted = wanted(&referrer, &sights);
    let (mut events, mut errors) = (Vec::new(), Vec::new());
    for object in wanted.objects.values() {
        match stored.attach(&referrer, object) {
            Ok(told) => events.extend(told),
            Err(error) => errors.push(error),
        }
    }
    for attached in stored.attached_to(&at.0, &at.1) {
        if wanted.lets_go_of(&attached.1) {
            stored.detach(&at.0, &at.1, &attached);
        }
    }
    errors.extend(wanted.problems.iter().map(ToString::to_string));
    events.push(json!(
        "Normal SyncScheduleResultToDependenciesSucceed Sync schedule results to dependencies succeed."
    ));
    stored.verdict(case, &events, errors.first().map(String::as_str))
}

fn building(case: &Value) -> Verdict {
    let referrer: ResourceBinding = serde_json::from_value(case["binding"].clone()).unwrap();
    let object = reference(&case["object"]);
    let reached = DependentObject {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        label_selector: None,
    };
    if let Err(problem) = reach(&referrer, &reached) {
        return Verdict::Differs(problem.to_string());
    }
    compare(&trimmed(case["out"].clone()), &shown(&built(&referrer, &object)))
}

fn matching(case: &Value) -> Verdict {
    let dependencies = match note::read(case["recorded"].as_str()) {
        Ok(dependencies) => dependencies,
        Err(_) if case["error"].is_string() => return Verdict::Agrees,
        Err(error) => return Verdict::Differs(error.to_string()),
    };
    let labels = read(&case["labels"]);
    let object = Candidate {
        kind: text(case, "objectKind"),
        namespace: text(case, "namespace"),
        name: text(case, "name"),
        uid: "",
        resource_version: "",
        labels: &labels,
    };
    let version = match text(case, "group") {
        "" => text(case, "version").to_owned(),
        group => format!("{group}/{}", text(case, "version")),
    };
    match note::matches(&dependencies, &version, &object) {
        Err(_) if case["error"].is_string() => Verdict::Agrees,
        Err(error) => Verdict::Differs(error.to_string()),
        Ok(matched) if case["error"].is_null() => compare(&case["matched"], &json!(matched)),
        Ok(_) => Verdict::Differs("no error".to_owned()),
    }
}

fn agreeing(case: &Value) -> Verdict {
    let wish = |spec: &Value| {
        let mut spec = spec.clone();
        // A word that nobody knows says nothing.
        if spec["conflictResolution"] == "Odd" {
            spec["conflictResolution"] = Value::Null;
        }
        let spec: BindingSpec = serde_json::from_value(spec).unwrap();
        DependencyPreferences::of(&spec)
    };
    let agreement = agree(case["referrers"].as_array().unwrap().iter().map(wish));
    let got = json!({"conflictResolution": agreement.conflict_resolution(), "preserveResourcesOnDeletion": agreement.holds.preserve,
        "conflictResolutionConflict": agreement.disputed.overwrite, "preserveConflict": agreement.disputed.preserve});
    let wanted: BTreeMap<&str, &Value> =
        got.as_object().unwrap().keys().map(|key| (key.as_str(), &case[key.as_str()])).collect();
    compare(&json!(wanted), &got)
}

fn check(case: &Value) -> Verdict {
    let (namespace, name) = (text(case, "namespace"), text(case, "name"));
    match text(case, "op") {
        "labelKey" => compare(&case["out"], &json!(label_key(namespace, name))),
        "attached" => building(case),
        "merge" => {
            let (mut listed, new): (Vec<BindingSnapshot>, Vec<BindingSnapshot>) =
                (read(&case["existing"]), read(&case["new"]));
            new.iter().for_each(|referrer| list(&mut listed, referrer));
            compare(&case["out"], &json!(listed))
        }
        "delete" => {
            let mut listed = read(&case["existing"]);
            unlist(&mut listed, namespace, name);
            compare(&case["out"], &json!(listed))
        }
        "matches" => matching(case),
        "effective" => agreeing(case),
        "attach" => attaching(case),
        "sync" => syncing(case),
        "detach" => detaching(case),
        "dependencyKey" => Verdict::Skip(UNSEEN),
        // The interpreter's.
        _ => Verdict::Skip(BESIDE),
    }
}

#[test]
fn recorded_cases_of_dependencies() {
    recorded::run("dependencies.json", "recorded_cases_of_dependencies", DIFFERENCES, check);
}

fn binding(name: &str, spec: Value) -> ResourceBinding {
    let mut spec = spec;
    spec["resource"] =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team", "name": name});
    let meta = json!({"name": format!("{name}-deployment"), "namespace": "team", "labels": {labels::RESOURCE_BINDING_ID: name}});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

fn dependency(value: Value) -> DependentObject {
    let mut all = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "team"});
    all.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

#[test]
fn where_a_selector_cannot_be_read_nothing_is_let_go_of() {
    let web = binding("web", json!({}));
    let odd = dependency(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}));
    let named = dependency(json!({"name": "s"}));
    let sight = |dependency| DependencyCandidates { dependency, found: Some(Vec::new()) };
    let look = wanted(&web, &[sight(&named)]);
    assert!(
        look.lets_go_of("t-secret") && !look.lets_go_of("s-secret"),
        "what is named and gone stays attached"
    );
    let look = wanted(&web, &[sight(&odd), sight(&named)]);
    assert_eq!(look.problems.len(), 1);
    assert!(!look.lets_go_of("t-secret"));
}

#[test]
fn the_referrers_own_template_and_the_hubs_own_kinds_do_not_follow() {
    let (web, none) = (binding("web", json!({})), BTreeMap::new());
    let own = dependency(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}));
    let seen = Candidate {
        kind: "Deployment",
        namespace: "team",
        name: "web",
        uid: "u",
        resource_version: "1",
        labels: &none,
    };
    assert!(
        wanted(&web, &[DependencyCandidates { dependency: &own, found: Some(vec![seen]) }])
            .objects
            .is_empty()
    );
    let work = dependency(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "name": "w"}));
    let look = wanted(&web, &[DependencyCandidates { dependency: &work, found: Some(Vec::new()) }]);
    assert_eq!(look.problems[0].to_string(), "objects of work.karmada.io/v1alpha1 Work are never propagated");
}

#[test]
fn what_follows_stays_where_its_referrer_is_still_leaving() {
    let task = |cluster: &str, mode: &str| json!({"fromCluster": cluster, "purgeMode": mode, "reason": "r", "producer": "p"});
    let tasks =
        [task("m2", "Gracefully"), task("m3", "Directly"), task("m4", "Never"), task("m1", "Gracefully")];
    let web =
        binding("web", json!({"clusters": [{"name": "m1", "replicas": 2}], "gracefulEvictionTasks": tasks}));
    let wanted = json!([{"name": "m1", "replicas": 2}, {"name": "m2"}, {"name": "m4"}]);
    assert_eq!(json!(clusters(&web.spec)), wanted);
}

#[test]
fn a_referrer_is_entered_in_no_binding_that_is_on_its_way_out() {
    let web = binding("web", json!({}));
    let object = ObjectReference {
        kind: "Secret".into(),
        namespace: "team".into(),
        name: "s".into(),
        ..Default::default()
    };
    let mut leaving = built(&web, &object);
    assert!(attach(Some(&leaving), &web, &object, &|_, _| None).is_ok());
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(attach(Some(&leaving), &web, &object, &|_, _| None).is_err());
}

/// A policy's binding reads it in the version that the hub prefers: who attaches it in another writes no word of that.
#[test]
fn an_object_that_is_served_in_two_versions_has_one_binding() {
    let web = binding("web", json!({}));
    let object = |version: &str| ObjectReference {
        api_version: format!("networking.k8s.io/{version}"),
        kind: "Ingress".into(),
        namespace: "team".into(),
        name: "i".into(),
        uid: "u".into(),
        resource_version: version.into(),
    };
    let of = |existing: &ResourceBinding, version: &str| {
        attach(Some(existing), &web, &object(version), &|_, _| None)
    };
    let existing = match of(&built(&web, &object("v1")), "v1beta1").unwrap().change {
        Change::Update(existing) => *existing,
        other => panic!("what both agree on is missing before: {other:?}"),
    };
    assert_eq!(existing.spec.resource, object("v1"));
    assert_eq!(of(&existing, "v1beta1").unwrap().change, Change::Nothing);
}

#[test]
fn what_follows_is_noted_and_the_note_taken_back() {
    let web = binding("web", json!({"propagateDeps": true}));
    let followed = [dependency(json!({"name": "s"}))];
    let noted = note::noted(&web, Some(&followed)).unwrap();
    assert_eq!(
        noted.metadata.finalizers.as_deref().unwrap(),
        ["karmada.io/binding-dependencies-distributor"]
    );
    assert_eq!(note::read(noted.annotation("resourcebinding.karmada.io/dependencies")).unwrap(), followed);
    assert_eq!(note::noted(&noted, Some(&followed)), None, "nothing changed, nothing is written");
    let back = note::noted(&noted, None).unwrap();
    assert_eq!(note::noted(&back, None), None);
    assert_eq!(note::noted(&web, None), None, "what never had a note has none to take back");
}

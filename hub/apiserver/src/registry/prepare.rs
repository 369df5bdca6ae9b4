//! The steps that make an object ready to store, as pure as they can be: each takes the object and what it must agree with.
//!
//! In: the object as sent, the object as it stands. Out: the object as it will be stored, or a `Status`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::strategy::{self, StatusMeta};
use super::{FieldValidation, PatchShown, Registry, User, WriteOptions};
use crate::conversion;
use crate::kinds;
use crate::object::{ObjectKey, Stored, meta};
use crate::resource::{Family, ResourceDefinition};
use crate::schema::{Empties, Read};
use crate::status::{Cause, Status};

/// The largest object that is stored, as etcd's default request limit.
const MAX_OBJECT: usize = 3 << 19;

/// Letters of generated names: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Checks that the body is the kind that the path names.
pub(crate) fn check_type(definition: &ResourceDefinition, object: &Value) -> Result<(), Status> {
    if !object.is_object() && !object.is_null() {
        return Err(Status::bad_request("the object provided is not a JSON object"));
    }
    let (kind, version) =
        (object["kind"].as_str().unwrap_or(""), object["apiVersion"].as_str().unwrap_or(""));
    let expected = definition.api_version();
    if definition.is_structural() && !kind.is_empty() && kind != &*definition.kind && version == expected {
        // As a CRD's kinds are refused: by validation, under the name that was sent.
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: \"{kind}\": must be {}", definition.kind),
            field: "kind".into(),
        };
        return Err(Status::invalid(&definition.group, kind, meta::text(object, "name"), vec![cause]));
    }
    if !version.is_empty() && version != expected {
        if definition.family == Family::Builtin && version.matches('/').count() > 1 {
            let begin = object.to_string();
            let begin: String = begin.chars().take(30).collect();
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {version} ({begin} ...)",
                definition.kind
            )));
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        if definition.family == Family::Builtin
            && (kind == "Status" && version == "v1"
                || crate::schema::Kind::builtin(group, short, kind).is_some())
        {
            return Err(Status::bad_request(converting(definition, short, kind)));
        }
        if definition.family == Family::Builtin {
            let short = version.rsplit('/').next().unwrap_or(version);
            return Err(Status::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {0}: no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:110\"",
                definition.kind
            )));
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != &*definition.kind {
        return Err(Status::bad_request(another_kind(definition, kind, object)));
    }
    match object.get("metadata") {
        // A compiled kind's reader says what it cannot read.
        None | Some(Value::Object(_) | Value::Null) => Ok(()),
        Some(_) if definition.family == Family::Builtin => Ok(()),
        Some(other) => Err(Status::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: json: cannot unmarshal {2} into Go value of type v1.ObjectMeta",
            definition.kind,
            definition.version,
            crate::schema::go_kind(other)
        ))),
    }
}

/// What is said of a body that is of another kind than the path's.
fn another_kind(definition: &ResourceDefinition, kind: &str, object: &Value) -> String {
    let (version, wanted) = (&definition.version, &definition.kind);
    let api_version = definition.api_version();
    if definition.is_structural() {
        return format!(
            "{kind} in version \"{version}\" cannot be handled as a {wanted}: converting ({api_version}.{kind}) to ({api_version}.{wanted}): unknown conversion"
        );
    }
    let begin = format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: ");
    // Every group has a Status of its own to convert from, save in its own version.
    let known = kind == "Status" || crate::schema::Kind::builtin(&definition.group, version, kind).is_some();
    if known {
        let own = crate::schema::Kind::builtin(&definition.group, version, kind);
        // It is read as what it says it is, before it is seen that it cannot be this.
        if let Some(Err(error)) = own.map(|own| own.decode(&mut object.clone())) {
            return format!("{begin}{error}");
        }
        return converting(definition, version, kind);
    }
    format!(
        "{begin}no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:110\""
    )
}

/// What is said of a known kind that cannot be made the one that is wanted.
fn converting(definition: &ResourceDefinition, version: &str, kind: &str) -> String {
    let (wanted, package) = (&definition.kind, strategy::package(definition));
    format!(
        "{kind} in version \"{version}\" cannot be handled as a {wanted}: converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    )
}

/// Reads the body into the kind; what the kind does not know is dropped, and said as asked. Answers what was sent empty.
pub(crate) fn decode(
    definition: &ResourceDefinition,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<Empties, Status> {
    if object.is_null() && !definition.is_structural() {
        *object = json!({});
    }
    let shown = match &options.patch {
        PatchShown::None => None,
        PatchShown::Itself(text) => Some(text.clone()),
        PatchShown::Outcome => Some(object.to_string()),
    };
    let refuse = |why: &str, shown: &str| {
        let value = Value::from(shown);
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {value}: {why}"),
            field: "patch".into(),
        };
        Err(Status::invalid("", "", "", vec![cause]))
    };
    let mut problems = options.body_problems.clone();
    let read = check_type(definition, object).and_then(|()| kinds::read(definition, object));
    let empties = match (read, &shown) {
        (Ok(Read { unknown: mut more, empties }), _) => {
            if definition.is_structural() {
                more.sort_by_key(|problem| !problem.contains("\"metadata."));
            }
            problems.extend(more);
            empties
        }
        (Err(status), Some(shown)) if !definition.is_structural() => {
            let marker = format!("cannot be handled as a {}: ", definition.kind);
            let why = status.message.split_once(&marker).map_or(status.message.as_str(), |(_, why)| why);
            return match &options.patch {
                PatchShown::Itself(_) => refuse(&unstructured(why), shown),
                _ => refuse(why, shown),
            };
        }
        (Err(status), _) => return Err(status),
    };
    if problems.is_empty() {
        return Ok(empties);
    }
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => problems.drain(..).for_each(|problem| options.warnings.add(problem)),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", problems.join(", "));
            if let Some(shown) = shown {
                return refuse(&why, &shown);
            }
            return Err(Status::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {why}",
                definition.kind, definition.version, definition.kind
            )));
        }
    }
    Ok(empties)
}

/// What cannot be read, as the converter says it that strategic merges go through instead of a JSON decoder.
fn unstructured(why: &str) -> String {
    let Some((what, rest)) =
        why.strip_prefix("json: cannot unmarshal ").and_then(|w| w.split_once(" into Go "))
    else {
        return why.to_owned();
    };
    let kind = match what {
        "object" => "map",
        "array" => "slice",
        _ if what.starts_with("number") => "int64",
        other => other,
    };
    match rest.rsplit_once(" of type ").map_or("", |(_, wanted)| wanted) {
        wanted if wanted.starts_with("[]") => format!("cannot restore slice from {kind}"),
        wanted if wanted.starts_with("map[") => format!("cannot restore map from {kind}"),
        wanted if wanted.contains('.') => format!("cannot restore struct from: {kind}"),
        wanted => format!("unrecognized type: {wanted}"),
    }
}

/// Gives a new object its identity: type, namespace, name, uid, creation time. `dry`: nothing will be stored.
pub(crate) fn identity_of_new(
    registry: &Registry,
    definition: &ResourceDefinition,
    namespace: &str,
    object: &mut Value,
    dry: bool,
) -> Result<(), Status> {
    set_type(definition, object);
    check_namespace(definition, namespace, object)?;
    if !dry && meta::text(object, "resourceVersion").parse::<u64>().is_ok_and(|version| version > 0) {
        // As kube-apiserver's: its storage's error, which nothing gives a reason to.
        let message = "resourceVersion should not be set on objects to be created".to_owned();
        return Err(Status { code: 500, reason: "".into(), message, details: None });
    }
    let (uid, now) = (registry.new_uid(), registry.now_text());
    let metadata = meta::of(object);
    for server_side in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(server_side);
    }
    if kinds::has_generation(definition) {
        metadata.remove("generation");
    }
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(now));
    Ok(())
}

/// Owners that are there twice count once; the writer was warned.
pub(crate) fn owners_once(object: &mut Value) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    for owner in owners.drain(..) {
        if !kept.contains(&owner) {
            kept.push(owner);
        }
    }
    *owners = kept;
}

/// Gives a new object the name that it asks the server to make. After defaulting, which does not see it.
pub(super) fn name_of_new(registry: &Registry, definition: &ResourceDefinition, object: &mut Value) {
    if !meta::name(object).is_empty() {
        return;
    }
    let generate = meta::text(object, "generateName").to_owned();
    let core = definition.group.is_empty();
    let seed = registry.new_uid();
    if !generate.is_empty() {
        let name = generated_name(&generate, &seed);
        if core && &*definition.plural == "namespaces" {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
        }
        meta::of(object).insert("name".into(), json!(name));
    } else if core && &*definition.plural == "limitranges" {
        meta::of(object).insert("name".into(), json!(seed));
    }
}

/// `prefix` and five letters drawn from `seed`, within the length of a name.
pub fn generated_name(prefix: &str, seed: &str) -> String {
    let letters: String = seed
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .collect::<Vec<u8>>()
        .chunks(4)
        .take(5)
        .map(|chunk| {
            let sum = chunk
                .iter()
                .fold(0usize, |sum, b| sum * 16 + (*b as char).to_digit(16).unwrap_or(0) as usize);
            NAME_LETTERS[sum % NAME_LETTERS.len()] as char
        })
        .collect();
    let kept: String = prefix.chars().take(58).collect();
    format!("{kept}{letters}")
}

fn set_type(definition: &ResourceDefinition, object: &mut Value) {
    object["kind"] = json!(definition.kind);
    object["apiVersion"] = json!(definition.api_version());
}

fn check_namespace(
    definition: &ResourceDefinition,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let given = meta::namespace(object).to_owned();
    let metadata = meta::of(object);
    if definition.namespaced {
        if !given.is_empty() && given != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        metadata.insert("namespace".into(), json!(namespace));
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}

/// Makes a changed object keep the identity of the live one. Refuses one that names another version than the live one's.
pub(crate) fn identity_of_changed(
    definition: &ResourceDefinition,
    key: &ObjectKey,
    live: &Stored,
    old: &Value,
    new: &mut Value,
    is_patch: bool,
) -> Result<(), Status> {
    set_type(definition, new);
    check_namespace(definition, &key.namespace, new)?;
    let name = meta::name(new).to_owned();
    if name.is_empty() {
        return Err(Status::nameless(&key.name));
    } else if *name != *key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    let uid = meta::text(new, "uid").to_owned();
    // Of a whole object it is a precondition; in a patch, a change that validation refuses.
    if !uid.is_empty() && uid != live.uid() && !is_patch {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            strategy::storage_path(definition, key),
            live.uid()
        );
        return Err(Status::conflict_because(definition, &key.name, &why));
    }
    let version = meta::text(new, "resourceVersion").to_owned();
    let pinned = !matches!(version.as_str(), "" | "0");
    if pinned && version.parse::<u64>().is_err() {
        return Err(Status::unforeseen(format!("strconv.ParseUint: parsing {version:?}: invalid syntax")));
    }
    if pinned && version.parse() != Ok(live.revision) {
        return Err(Status::conflict(definition, &key.name));
    }
    if !pinned && !strategy::updates_without_version(definition) {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "Invalid value: 0: must be specified for an update".into(),
            field: "metadata.resourceVersion".into(),
        };
        // The resource stands where a kind would: so kube-apiserver says it.
        return Err(Status::invalid(&definition.group, &definition.plural, &key.name, vec![cause]));
    }
    let metadata = meta::of(new);
    for kept in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
        .iter()
        .skip(usize::from(is_patch && !uid.is_empty()))
    {
        match old["metadata"].get(*kept) {
            Some(value) => metadata.insert((*kept).to_owned(), value.clone()),
            // Validation refuses to have it made up.
            None if kept.starts_with("deletion") => None,
            None => metadata.remove(*kept),
        };
    }
    metadata.insert("resourceVersion".into(), json!(live.revision.to_string()));
    metadata.remove("selfLink");
    Ok(())
}

/// Fills in defaults.
pub(crate) fn defaults(definition: &ResourceDefinition, object: &mut Value) {
    kinds::default(definition, object);
}

/// What the server decides about a new object: no status of the client's, first generation.
pub(crate) fn new_object(
    registry: &Registry,
    definition: &ResourceDefinition,
    object: &mut Value,
    user: &User,
) {
    let brought = kinds::created_with_status(definition) && object["status"].is_object();
    if definition.subresource("status").is_some() && !brought {
        match kinds::first_status(definition, object) {
            Some(status) => object["status"] = status,
            None => {
                if let Some(members) = object.as_object_mut() {
                    members.remove("status");
                }
            }
        }
    }
    if crate::aggregation::is_local(definition, object) {
        object["status"] = crate::aggregation::local_status(&registry.now_text());
    }
    if kinds::has_generation(definition) && &*definition.plural != "csidrivers" {
        meta::of(object).insert("generation".into(), json!(1));
    }
    match (&*definition.group, &*definition.plural) {
        ("", "persistentvolumes") => object["status"]["lastPhaseTransitionTime"] = json!(registry.now_text()),
        ("certificates.k8s.io", "certificatesigningrequests") => asked_by(user, &mut object["spec"]),
        ("", "namespaces") => object["spec"] = json!({"finalizers": namespace_finalizers(object)}),
        _ => {}
    }
}

/// Who asks for a certificate is told by the server, whatever the request says.
fn asked_by(user: &User, spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".into(), json!(user.name));
    if !user.uid.is_empty() {
        spec.insert("uid".into(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        spec.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".into(), json!(user.extra));
    }
}

/// A namespace is held by its own finalizer until it is empty.
fn namespace_finalizers(object: &Value) -> Vec<Value> {
    let mut all = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !all.iter().any(|one| one == "kubernetes") {
        all.push(json!("kubernetes"));
    }
    all
}

/// Keeps a write to one part of an object from touching the others.
pub(crate) fn changed_object(
    definition: &ResourceDefinition,
    subresource: &str,
    old: &Value,
    new: &mut Value,
    now: &str,
) {
    if definition.subresource("status").is_none() {
        return;
    }
    if subresource == "ephemeralcontainers" {
        // Nothing else of the Pod moves with it.
        let (laid, metadata) = (new["spec"].get("ephemeralContainers").cloned(), new["metadata"].clone());
        let mut whole = old.clone();
        put_or_remove(&mut whole["spec"], "ephemeralContainers", laid);
        whole["metadata"] = metadata;
        *new = whole;
        return;
    }
    if subresource == "binding" {
        return;
    }
    if matches!(subresource, "status" | "approval") {
        let (status, metadata) = (new.get("status").cloned(), new["metadata"].clone());
        let mut whole = old.clone();
        put_or_remove(&mut whole, "status", status);
        whole["metadata"] = metadata;
        if let StatusMeta::Keeps(fields) = strategy::status_meta(definition) {
            for field in fields {
                let kept = old["metadata"].get(*field).cloned();
                put_or_remove(&mut whole["metadata"], field, kept);
            }
        }
        *new = whole;
        finish_status(definition, old, new, now);
        if subresource == "approval" {
            // Who approves says nothing else.
            let said =
                new["status"].get("conditions").filter(|said| said.as_array().is_some_and(|s| !s.is_empty()));
            let said = said.cloned();
            let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
            put_or_remove(&mut status, "conditions", said);
            put_or_remove(new, "status", Some(status));
        }
    } else {
        put_or_remove(new, "status", old.get("status").cloned());
        kinds::prepare_update(definition, new);
        match (&*definition.group, &*definition.plural, subresource) {
            // A request is not changed once it is made.
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                put_or_remove(new, "spec", old.get("spec").cloned());
            }
            // Finalizers of namespaces have a part of their own.
            ("", "namespaces", "") => put_or_remove(new, "spec", old.get("spec").cloned()),
            _ => {}
        }
    }
}

/// What the server keeps in a status that is written.
fn finish_status(definition: &ResourceDefinition, old: &Value, new: &mut Value, now: &str) {
    match (&*definition.group, &*definition.plural) {
        ("", "pods") if new["status"]["qosClass"].as_str().is_none_or(str::is_empty) => {
            new["status"]["qosClass"] = old["status"]["qosClass"].clone();
        }
        ("certificates.k8s.io", _) => {
            let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let all = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            let all = all.into_iter().flatten();
            for condition in all {
                if condition["lastUpdateTime"].is_null() {
                    condition["lastUpdateTime"] = json!(now);
                }
                if condition["lastTransitionTime"].is_null() {
                    let same = before
                        .iter()
                        .find(|one| one["type"] == condition["type"] && one["status"] == condition["status"]);
                    let since = same.map_or_else(|| json!(now), |one| one["lastTransitionTime"].clone());
                    condition["lastTransitionTime"] = since;
                }
            }
        }
        ("", "persistentvolumes") => {
            let (before, after) = (&old["status"], &new["status"]);
            let (was, is) = (&before["lastPhaseTransitionTime"], &after["lastPhaseTransitionTime"]);
            if before["phase"] == after["phase"] && is.is_null() && !was.is_null() {
                new["status"]["lastPhaseTransitionTime"] = was.clone();
            } else if before["phase"] != after["phase"] && (is.is_null() || is == was) {
                new["status"]["lastPhaseTransitionTime"] = json!(now);
            }
        }
        _ => {}
    }
}

fn put_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(members) = object.as_object_mut() else { return };
    match value {
        Some(value) => members.insert(field.to_owned(), value),
        None => members.remove(field),
    };
}

/// Judges a new object as it was sent: with what is empty and not stored.
pub(crate) fn validate_new(
    definition: &ResourceDefinition,
    object: &Value,
    empties: &Empties,
) -> Result<(), Status> {
    if empties.is_none() {
        return validate(definition, "", object, None);
    }
    let mut sent = object.clone();
    empties.lay_in(&mut sent);
    validate(definition, "", &sent, None)
}

/// Refuses an object that breaks its kind's rules, naming all of them.
pub(crate) fn validate(
    definition: &ResourceDefinition,
    part: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let causes = kinds::validate(definition, part, new, old);
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&definition.group, &definition.kind, meta::name(new), causes))
}

/// What a change that is refused leaves as wrong as it was: it is mentioned all the same, where rules were run at all.
pub(crate) fn tolerated(
    definition: &ResourceDefinition,
    new: &Value,
    old: &Value,
    refusal: &Status,
) -> Vec<String> {
    let unchecked = refusal.message.contains("some validation rules were not checked");
    if unchecked { Vec::new() } else { kinds::tolerated(definition, new, old) }
}

/// Records who owns what was written.
pub(crate) fn managed_fields(
    registry: &Registry,
    definition: &ResourceDefinition,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
) {
    let now = registry.now_text();
    kinds::update_managed(definition, old, new, &options.field_manager, &options.subresource, &now);
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Whether a change leaves everything as it was, timestamps of field ownership aside. Nothing is copied: every write asks.
pub(crate) fn same(old: &Value, new: &Value) -> bool {
    let others = |value| members(value).filter(|(name, _)| *name != "metadata");
    others(old).eq(others(new)) && same_metadata(&old["metadata"], &new["metadata"])
}

fn owners(metadata: &Value) -> &[Value] {
    metadata.get("managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn same_metadata(old: &Value, new: &Value) -> bool {
    let others = |value| members(value).filter(|(name, _)| *name != "managedFields");
    let timeless = |entry| members(entry).filter(|(name, _)| *name != "time");
    let (before, after) = (owners(old), owners(new));
    others(old).eq(others(new))
        && before.len() == after.len()
        && before.iter().zip(after).all(|(old, new)| timeless(old).eq(timeless(new)))
}

/// Whether nothing but finalizers holds an object that is being deleted.
pub(crate) fn no_grace(object: &Value) -> bool {
    let namespace_holds = object["kind"] == "Namespace"
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0 && !namespace_holds
}

/// The object in the version it is stored in.
pub(crate) fn to_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.to_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::to_storage(definition, object) }
}

/// The object in the version it is stored in, by the kind's webhook where it has one.
pub(crate) async fn store(
    registry: &Registry,
    definition: &ResourceDefinition,
    object: Value,
) -> Result<Value, Status> {
    match &definition.custom {
        Some(custom) => custom.store(registry.cache(), object).await,
        None => Ok(to_storage(definition, object)),
    }
}

/// The object to be answered with, where what is stored could only be shown by asking a webhook again.
pub(crate) fn shown(definition: &ResourceDefinition, object: &Value) -> Option<Value> {
    let asks = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
    asks.then(|| object.clone())
}

/// What a write is answered with: the stored bytes, or what [`shown`] kept.
pub(crate) fn answer(
    definition: &ResourceDefinition,
    shown: Option<Value>,
    bytes: &Bytes,
    revision: u64,
) -> Result<Arc<Stored>, Status> {
    match (&definition.custom, shown) {
        (Some(custom), Some(object)) => custom.shown(&object, revision),
        _ => Registry::stored(bytes, revision),
    }
}

/// Whether an object is stored in the version that is stored now: if not, writing it unchanged brings it there.
pub(crate) fn is_stored_as_now(definition: &ResourceDefinition, live: &Stored) -> bool {
    let Some(_) = &definition.custom else { return true };
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        definition.kind,
        definition.storage_api_version()
    );
    live.starts_with(head.as_bytes())
}

/// A stored object in the version the client speaks.
pub(crate) fn from_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.from_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::from_storage(definition, object) }
}

/// Refuses what is larger than any store would take.
pub(crate) fn check_size(bytes: &[u8]) -> Result<(), Status> {
    if bytes.len() > MAX_OBJECT { Err(Status::too_large(MAX_OBJECT)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_drawn_from_the_seed() {
        let name = generated_name("web-", "0123abcd-4567-89ef-0123-456789abcdef");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert!(name[4..].bytes().all(|b| NAME_LETTERS.contains(&b)));
        assert_eq!(generated_name(&"x".repeat(80), "00000000000000000000").len(), 63);
    }

    #[test]
    fn only_times_of_ownership_may_differ() {
        let at = |time: &str, n: i64| json!({"metadata": {"managedFields": [{"manager": "m", "time": time}]}, "data": n});
        assert!(same(&at("a", 1), &at("b", 1)));
        assert!(!same(&at("a", 1), &at("a", 2)));
    }
}

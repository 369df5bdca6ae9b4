//! PersistentVolumes: how big they are, how they are mounted, what they are made of; and what claims share with them, access modes and
//! amounts.
//!
//! In: a PersistentVolume, the spec of one within an attachment, one source of it, or the amounts of a claim; on an update what stands. Out:
//! field errors in kube-apiserver's order. Sources that Pods have as well are judged here for both; what may change of a volume is judged by
//! `persistent_volume_update`.

use karmada_quantity::Quantity;
use karmada_schema::FieldError;
use karmada_schema::facts::Fact;
use karmada_schema::path::Path;
use serde_json::Value;

use super::persistent_volume_update::SOURCES;
use super::resources::amount;
use super::scheduling::node_selector;
use super::{
    Errors, amount_shown, entries, facts, invalid_each, is_empty, judge, list, names, text, volume_fields,
};

/// How a volume may be mounted.
pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(crate) fn persistent_volume(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::field("spec");
    spec(&new["spec"], text(&new["metadata"], "name"), VolumeSpecPlace::Stored, &path, errors);
    if let Some(old) = old {
        super::persistent_volume_update::update(&new["spec"], &old["spec"], &path, errors);
    }
}

/// Where a volume's spec stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeSpecPlace {
    /// In a PersistentVolume.
    Stored,
    /// Within an attachment, where only some of it makes sense.
    Inline,
}

/// The spec of a volume.
pub(super) fn spec(spec: &Value, name: &str, held: VolumeSpecPlace, path: &Path<'_>, errors: &mut Errors) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    if held == VolumeSpecPlace::Inline {
        for field in ["claimRef", "capacity"] {
            if !is_empty(&spec[field]) {
                errors.push(FieldError::forbidden(&path.child(field), INLINE));
            }
        }
        if !spec["csi"].is_object() {
            let detail = "has to be specified in the context of inline volumes";
            errors.push(FieldError::required(&path.child("csi"), detail));
        }
    }
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(&path.child("accessModes"), ""));
    }
    access_modes(spec, None, path, errors);
    if held == VolumeSpecPlace::Stored {
        capacity(spec, path, errors);
    }
    reclaim(spec, held, path, errors);
    let affinity = &spec["nodeAffinity"];
    if affinity.is_object() {
        let at = path.child("nodeAffinity");
        if held == VolumeSpecPlace::Inline {
            errors.push(FieldError::forbidden(&at, INLINE));
        } else if affinity["required"].is_object() {
            node_selector(&affinity["required"], &at.child("required"), errors);
        } else {
            errors
                .push(FieldError::required(&at.child("required"), "must specify required node constraints"));
        }
    }
    sources(spec, name, held, path, errors);
    rest(spec, held, path, errors);
}

fn capacity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("capacity");
    let all: Vec<(&String, &Value)> = entries(spec, "capacity").collect();
    if all.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if spec["capacity"].get("storage").is_none() || all.len() > 1 {
        errors.push(FieldError::not_supported(&at, spec["capacity"].clone(), &["storage"]));
    }
    for (name, value) in all {
        let Some(size) = Quantity::from_value(value) else { continue };
        let at = at.key(name);
        if size.wrapped_units() < 0 {
            errors.push(FieldError::invalid(&at, size.wrapped_units(), "must be a valid resource quantity"));
        }
        if size.nanos() <= 0 {
            errors.push(FieldError::invalid(&at, amount_shown(value), "must be greater than zero"));
        }
    }
}

fn reclaim(spec: &Value, held: VolumeSpecPlace, path: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let (policy, at) =
        (text(spec, "persistentVolumeReclaimPolicy"), path.child("persistentVolumeReclaimPolicy"));
    match policy {
        "" => {}
        "Retain" => {}
        _ if held == VolumeSpecPlace::Inline => {
            let detail = "may only be Retain in the context of inline volumes";
            errors.push(FieldError::forbidden(&at, detail));
        }
        policy if POLICIES.contains(&policy) => {}
        policy => errors.push(FieldError::not_supported(&at, policy, &POLICIES)),
    }
}

fn sources(spec: &Value, name: &str, held: VolumeSpecPlace, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for field in SOURCES.into_iter().filter(|field| spec[*field].is_object()) {
        if found > 0 && field != "flexVolume" {
            // kube-apiserver spells it so in this one message.
            let told = if field == "cephfs" && held == VolumeSpecPlace::Stored { "cephFS" } else { field };
            errors.push(FieldError::forbidden(&path.child(told), "may not specify more than 1 volume type"));
            continue;
        }
        found += 1;
        let named = if field == "gcePersistentDisk" { "persistentDisk" } else { field };
        source(field, &spec[field], name, &path.child(named), errors);
        if field == "local" && (held == VolumeSpecPlace::Inline || !spec["nodeAffinity"].is_object()) {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(&path.child("nodeAffinity"), detail));
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    let root = spec["hostPath"]["path"].as_str().is_some_and(|at| {
        !at.is_empty() && at.starts_with('/') && at.split('/').all(|part| part.is_empty() || part == ".")
    });
    if root && text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let at = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'"));
    }
}

fn rest(spec: &Value, held: VolumeSpecPlace, path: &Path<'_>, errors: &mut Errors) {
    let class = text(spec, "storageClassName");
    let at = path.child("storageClassName");
    if held == VolumeSpecPlace::Inline && !class.is_empty() {
        errors.push(FieldError::forbidden(&at, "may not be specified in the context of inline volumes"));
    } else if !class.is_empty() {
        invalid_each(errors, &at, class, names::dns_subdomain(class));
    }
    let (mode, at) = (text(spec, "volumeMode"), path.child("volumeMode"));
    if held == VolumeSpecPlace::Inline && spec["volumeMode"].is_string() && mode != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(FieldError::forbidden(&at, detail));
    } else if spec["volumeMode"].is_string() && !matches!(mode, "Block" | "Filesystem") {
        errors.push(FieldError::not_supported(&at, mode, &["Block", "Filesystem"]));
    }
    if let Some(class) = spec["volumeAttributesClassName"].as_str() {
        let at = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(&at, "an empty string is disallowed"));
        } else {
            invalid_each(errors, &at, class, names::dns_subdomain(class));
        }
        if !spec["csi"].is_object() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(&path.child("csi"), detail));
        }
    }
}

/// The facts of a source by the field that it stands in; iSCSI's depend on what the volume is called.
fn facts_of(field: &str) -> &'static [Fact] {
    match field {
        "hostPath" => facts::CORE_V1_HOST_PATH_VOLUME_SOURCE,
        "nfs" => facts::CORE_V1_NFSVOLUME_SOURCE,
        "gcePersistentDisk" => facts::CORE_V1_GCEPERSISTENT_DISK_VOLUME_SOURCE,
        "awsElasticBlockStore" => facts::CORE_V1_AWSELASTIC_BLOCK_STORE_VOLUME_SOURCE,
        "glusterfs" => facts::CORE_V1_GLUSTERFS_PERSISTENT_VOLUME_SOURCE,
        "flocker" => facts::CORE_V1_FLOCKER_VOLUME_SOURCE,
        "rbd" => facts::CORE_V1_RBDVOLUME_SOURCE,
        "quobyte" => facts::CORE_V1_QUOBYTE_VOLUME_SOURCE,
        "cephfs" => facts::CORE_V1_CEPH_FSVOLUME_SOURCE,
        "cinder" => facts::CORE_V1_CINDER_PERSISTENT_VOLUME_SOURCE,
        "fc" => facts::CORE_V1_FCVOLUME_SOURCE,
        "flexVolume" => facts::CORE_V1_FLEX_VOLUME_SOURCE,
        "azureFile" => facts::CORE_V1_AZURE_FILE_PERSISTENT_VOLUME_SOURCE,
        "vsphereVolume" => facts::CORE_V1_VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
        "photonPersistentDisk" => facts::CORE_V1_PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
        "portworxVolume" => facts::CORE_V1_PORTWORX_VOLUME_SOURCE,
        "azureDisk" => facts::CORE_V1_AZURE_DISK_VOLUME_SOURCE,
        "scaleIO" => facts::CORE_V1_SCALE_IOVOLUME_SOURCE,
        "local" => facts::CORE_V1_LOCAL_VOLUME_SOURCE,
        "storageos" => facts::CORE_V1_STORAGE_OSPERSISTENT_VOLUME_SOURCE,
        "csi" => facts::CORE_V1_CSIPERSISTENT_VOLUME_SOURCE,
        _ => &[],
    }
}

/// One source by its name; `name`: what the volume is called.
pub(super) fn source(field: &str, source: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    judge(facts_of(field), source, None, path, errors);
    if field == "iscsi" {
        iscsi(source, name, path, errors);
    }
}

/// Where a share's endpoints are.
pub(super) fn namespace_of_endpoints(new: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let namespace = new.as_str().unwrap_or_default();
    if namespace.is_empty() {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errors.push(FieldError::invalid(path, namespace, detail));
    } else {
        invalid_each(errors, path, namespace, names::dns_label(namespace));
    }
}

/// What need not be there is no empty text.
pub(super) fn not_empty(text: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if text == "" {
        errors.push(FieldError::required(path, ""));
    }
}

pub(super) fn flocker(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

pub(super) fn quobyte(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, at) = (text(source, "registry"), path.child("registry"));
    if registry.is_empty() {
        errors.push(FieldError::required(&at, PAIRS));
    } else if text(source, "tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| pair.matches(':').count() != 1) {
            errors.push(FieldError::invalid(&at, registry, PAIRS));
        }
    }
}

fn iscsi(source: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    volume_fields::required(source, "targetPortal", path, errors);
    let portal = text(source, "targetPortal");
    let initiator = source["initiatorName"].as_str();
    if initiator.is_some() && name.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&path.child("targetportal"), portal, detail));
    }
    let iqn = text(source, "iqn");
    if iqn.is_empty() {
        errors.push(FieldError::required(&path.child("iqn"), ""));
    } else if !volume_fields::is_iscsi_name(iqn) {
        errors.push(FieldError::invalid(&path.child("iqn"), iqn, "must be valid format"));
    }
    judge(facts::CORE_V1_ISCSIVOLUME_SOURCE, source, None, path, errors);
    let at = path.child("secretRef");
    if (source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true)
        && !source["secretRef"].is_object()
    {
        errors.push(FieldError::required(&at, ""));
    }
    if source["secretRef"].is_object() {
        volume_fields::required(&source["secretRef"], "name", &at, errors);
    }
    if let Some(initiator) = initiator.filter(|initiator| !volume_fields::is_iscsi_name(initiator)) {
        errors.push(FieldError::invalid(&path.child("initiatorname"), initiator, "must be valid format"));
    }
}

pub(super) fn fibre(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (names, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let at = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(&at, "must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&at, names.to_vec(), detail));
    }
    if names.is_empty() {
        return;
    }
    match source["lun"].as_i64() {
        None => errors
            .push(FieldError::required(&path.child("lun"), "lun is required if targetWWNs is specified")),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.push(FieldError::invalid(&path.child("lun"), lun, "must be between 0 and 255, inclusive"));
        }
        Some(_) => {}
    }
}

/// Options, whose names are not among those that Kubernetes reserves.
pub(super) fn flex_options(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for (key, _) in all.as_object().into_iter().flatten() {
        let domain = key.split_once('/').map_or(key.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.key(key), key.as_str(), detail));
        }
    }
}

/// Where a disk is, by its kind.
pub(super) fn azure_uri(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (uri, at) = (text(source, "diskURI"), path.child("diskURI"));
    match source["kind"].as_str() {
        Some("Managed") if !uri.starts_with("/subscriptions/") => {
            errors.push(FieldError::not_supported(&at, uri, &[MANAGED]));
        }
        Some(kind) if kind != "Managed" && !uri.starts_with("https://") => {
            errors.push(FieldError::not_supported(&at, uri, &[BLOB]));
        }
        _ => {}
    }
}

/// An amount in a status, which is told otherwise than in a spec.
pub(super) fn basic_amounts(of: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child(field);
    for (name, value) in entries(of, field) {
        let Some(size) = Quantity::from_value(value).filter(|size| size.wrapped_units() < 0) else {
            continue;
        };
        errors.push(FieldError::invalid(
            &at.key(name),
            size.wrapped_units(),
            "must be a valid resource quantity",
        ));
    }
}

/// Resources of a claim's status: storage, or one with a domain.
pub(super) fn claim_amounts(of: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child(field);
    for (name, value) in entries(of, field) {
        let before = errors.len();
        claim_resource(name, &at, errors);
        if errors.len() == before {
            basic_amounts(&serde_json::json!({field: {name.as_str(): value}}), field, path, errors);
            if errors.len() == before {
                amount("storage", value, &at.key(name), errors);
            }
        }
    }
}

/// The name of a resource that a claim can have.
pub(super) fn claim_resource(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = names::qualified_name(name);
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    if problems.is_empty() && native && name != "storage" {
        errors.push(FieldError::not_supported(path, name, &["storage"]));
    }
    invalid_each(errors, path, name, problems);
}

/// `accessModes`: known ones; `ReadWriteOncePod` goes with no other.
pub(super) fn access_modes(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("accessModes");
    let modes = list(spec, "accessModes");
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&at, mode, &ACCESS_MODES));
    }
    let known = |mode: &&Value| mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode));
    if modes.iter().any(|mode| mode == "ReadWriteOncePod")
        && modes.iter().filter(known).any(|mode| mode != "ReadWriteOncePod")
    {
        errors.push(FieldError::forbidden(&at, "may not use ReadWriteOncePod with other access modes"));
    }
}

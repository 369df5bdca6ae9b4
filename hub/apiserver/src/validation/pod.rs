//! Pods, and the templates of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata::{annotations, labels};
use super::resources::requirements;
use super::{Errors, invalid_each, list, names, non_negative, one_of, text};
use super::{scheduling, security, volumes};
use crate::schema::FieldError;
use crate::schema::path::Path;

/// What a Pod's update may change.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A Pod itself.
pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    spec(&new["spec"], &Path::field("spec"), errors);
    tokens(&new["spec"], errors);
    if old.is_none() && !list(&new["spec"], "ephemeralContainers").is_empty() {
        let at = Path::field("spec");
        errors.push(FieldError::forbidden(&at.child("ephemeralContainers"), "cannot be set on create"));
    }
    if let Some(old) = old {
        pod_update(&new["spec"], &old["spec"], errors);
    }
}

fn pod_update(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    let deadline = path.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(later), Some(before)) if later > before => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(&deadline, later, detail));
            return;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(&deadline, Value::Null, detail));
            return;
        }
        _ => {}
    }
    let mut munged = new.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in
            munged.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            if let (Some(container), Some(image)) =
                (container.as_object_mut(), old[field][index].get("image"))
            {
                container.insert("image".to_owned(), image.clone());
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "serviceAccount"] {
        if let Some(munged) = munged.as_object_mut() {
            match old.get(field) {
                Some(value) => munged.insert(field.to_owned(), value.clone()),
                None => munged.remove(field),
            };
        }
    }
    let mut stored = old.clone();
    for spec in [&mut munged, &mut stored] {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("serviceAccount");
        }
    }
    if munged != stored {
        errors.push(FieldError::forbidden(
            &path,
            format!("pod updates may not change fields other than {UPDATABLE}"),
        ));
    }
}

/// Who has no account has no token.
fn tokens(spec: &Value, errors: &mut Errors) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    let path = Path::field("spec");
    let path = path.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = path.index(index);
        let at = at.child("projected");
        let at = at.child("sources");
        for (index, source) in list(&volume["projected"], "sources").iter().enumerate() {
            if source["serviceAccountToken"].is_object() {
                let at = at.index(index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(FieldError::forbidden(&at.child("serviceAccountToken"), detail));
            }
        }
    }
}

/// What Pods of that system do not have.
fn windows(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let (own, at) = (&spec["securityContext"], path.child("securityContext"));
    let set = |of: &Value, field: &str| of.get(field).is_some_and(|value| !value.is_null() && value != false);
    let mut refuse = |at: &Path<'_>| errors.push(FieldError::forbidden(at, DETAIL));
    for field in ["appArmorProfile", "seLinuxOptions"].into_iter().filter(|field| set(own, field)) {
        refuse(&at.child(field));
    }
    if !spec["hostUsers"].is_null() {
        refuse(&path.child("hostUsers"));
    }
    for field in ["hostPID", "hostIPC"].into_iter().filter(|field| set(spec, field)) {
        refuse(&path.child(field));
    }
    for field in ["seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"] {
        if set(own, field) && !super::is_empty(&own[field]) {
            refuse(&at.child(field));
        }
    }
    if !spec["shareProcessNamespace"].is_null() {
        refuse(&path.child("shareProcessNamespace"));
    }
    for field in
        ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"]
    {
        if set(own, field) {
            refuse(&at.child(field));
        }
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            let at = all.index(index);
            let at = at.child("securityContext");
            for field in [
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "capabilities",
                "readOnlyRootFilesystem",
                "privileged",
                "allowPrivilegeEscalation",
                "procMount",
                "runAsUser",
                "runAsGroup",
            ] {
                if !one["securityContext"][field].is_null() {
                    refuse(&at.child(field));
                }
            }
        }
    }
}

/// Containers that are laid into a Pod that runs: judged as any, and never changed or taken away.
pub(super) fn ephemeral(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    let at = path.child("ephemeralContainers");
    let (now, before) =
        (list(&new["spec"], "ephemeralContainers"), list(&old["spec"], "ephemeralContainers"));
    let volumes = named_volumes(&new["spec"], &path.child("volumes"), &mut Errors::new());
    let mut seen: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| list(&new["spec"], kind).iter().map(|one| text(one, "name")))
        .collect();
    for (index, one) in now.iter().enumerate() {
        let at = at.index(index);
        container(one, &volumes, &at, errors);
        if !seen.insert(text(one, "name")) && !text(one, "name").is_empty() {
            errors.push(FieldError::duplicate(&at.child("name"), text(one, "name")));
        }
        for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"]
        {
            if one.get(field).is_some_and(|value| !super::is_empty(value)) {
                let detail = "cannot be set for an Ephemeral Container";
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
        }
        if one.get("resources").is_some_and(|value| !super::is_empty(value)) {
            let detail = "cannot be set for an Ephemeral Container";
            errors.push(FieldError::forbidden(&at.child("resources"), detail));
        }
        let target = text(one, "targetContainerName");
        let known = ["containers", "initContainers"]
            .into_iter()
            .any(|kind| list(&new["spec"], kind).iter().any(|one| text(one, "name") == target));
        if !target.is_empty() && !known {
            errors.push(FieldError::not_found(&at.child("targetContainerName"), target));
        }
    }
    for one in before {
        let name = text(one, "name");
        match now.iter().find(|other| text(other, "name") == name) {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.push(FieldError::forbidden(&at, detail));
            }
            Some(other) if other != one => {
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n");
                errors.push(FieldError::forbidden(&at, detail));
            }
            Some(_) => {}
        }
    }
}

/// Sizes of a Pod that runs: of its containers only what they ask for changes.
pub(super) fn resized(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    spec(&new["spec"], &path, errors);
    let sized = |object: &Value| {
        let mut spec = object["spec"].clone();
        for kind in ["containers", "initContainers"] {
            for one in spec.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(one) = one.as_object_mut() {
                    one.remove("resources");
                }
            }
        }
        spec
    };
    if sized(new) != sized(old) {
        errors.push(FieldError::forbidden(&path, "only cpu and memory resources are mutable"));
    }
}

/// A Pod template.
pub(super) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    labels(&template["metadata"]["labels"], &path.child("labels"), errors);
    annotations(&template["metadata"], &path.child("annotations"), errors);
    spec(&template["spec"], &path.child("spec"), errors);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("spec").child("ephemeralContainers"), detail));
    }
}

/// The spec of a Pod or of its template.
fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = named_volumes(spec, &path.child("volumes"), errors);
    containers(spec, &volumes, path, errors);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], path, errors);
    labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    security::pod(spec, path, errors);
    if spec["os"]["name"] == "windows" {
        windows(spec, path, errors);
    }
    for (kind, index, one) in ["initContainers", "containers"]
        .into_iter()
        .flat_map(|kind| list(spec, kind).iter().enumerate().map(move |(index, one)| (kind, index, one)))
    {
        let all = path.child(kind);
        let at = all.index(index);
        let of_pod = list(spec, "resourceClaims");
        super::resources::claims(&one["resources"], of_pod, &at.child("resources"), errors);
    }
    if spec["hostUsers"] == false {
        for field in ["hostNetwork", "hostPID", "hostIPC"].iter().filter(|field| spec[**field] == true) {
            errors.push(FieldError::forbidden(&path.child(field), "when `hostUsers` is false"));
        }
    }
    scheduling::affinity(&spec["affinity"], &path.child("affinity"), errors);
    volumes::dns(spec, path, errors);
    let gates = path.child("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        let at = gates.index(index);
        invalid_each(errors, &at.child("conditionType"), condition, names::qualified_name(condition));
    }
    let (gates, mut seen) = (path.child("schedulingGates"), BTreeSet::new());
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (name, at) = (text(gate, "name"), gates.index(index));
        let problems = names::qualified_name(name);
        invalid_each(errors, &at, name, problems);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    scheduling::spread(spec, &path.child("topologySpreadConstraints"), errors);
    named(spec, &["serviceAccountName", "nodeName"], names::dns_subdomain, path, errors);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(&path.child("activeDeadlineSeconds"), seconds, detail));
    }
    named(spec, &["hostname", "subdomain"], names::dns_label, path, errors);
    scheduling::tolerations(spec, &path.child("tolerations"), errors);
    volumes::host_aliases(spec, &path.child("hostAliases"), errors);
    named(spec, &["priorityClassName", "runtimeClassName"], names::dns_subdomain, path, errors);
    let overhead = path.child("overhead");
    let overhead = overhead.child("limits");
    for (name, value) in super::entries(spec, "overhead") {
        super::resources::amount(name, value, &overhead.key(name), errors);
    }
    if spec["os"].is_object() {
        let os = text(&spec["os"], "name");
        let at = path.child("os");
        match os {
            "linux" | "windows" => {}
            "" => errors.push(FieldError::required(&at.child("name"), "cannot be empty")),
            other => errors.push(FieldError::not_supported(&at, other, &["linux", "windows"])),
        }
    }
}

fn named(
    spec: &Value,
    fields: &[&str],
    check: fn(&str) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    for field in fields {
        let value = text(spec, field);
        if !value.is_empty() {
            invalid_each(errors, &path.child(field), value, check(value));
        }
    }
}

/// Names of the volumes that are well formed.
fn named_volumes(spec: &Value, path: &Path<'_>, errors: &mut Errors) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = path.index(index);
        let before = errors.len();
        let sources = volume.as_object().map_or(0, |fields| {
            fields.iter().filter(|(field, value)| *field != "name" && !value.is_null()).count()
        });
        if sources == 0 {
            errors.push(FieldError::required(&at, "must specify a volume type"));
        }
        if sources == 1 {
            volumes::source(volume, &at, errors);
        }
        if sources > 1 {
            let extra =
                volume.as_object().into_iter().flatten().map(|(field, _)| field).filter(|f| *f != "name");
            for field in extra.skip(1) {
                errors
                    .push(FieldError::forbidden(&at.child(field), "may not specify more than 1 volume type"));
            }
        }
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::dns_label(name));
        }
        if known.contains(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if errors.len() == before {
            known.insert(name.to_owned());
        }
    }
    known
}

fn containers(spec: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let main = path.child("containers");
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(&main, ""));
    }
    let mut names_seen = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (index, one) in list(spec, "containers").iter().enumerate() {
        let at = main.index(index);
        container(one, volumes, &at, errors);
        if !names_seen.insert(text(one, "name").to_owned()) {
            errors.push(FieldError::duplicate(&at.child("name"), text(one, "name")));
        }
        hooks(one, spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30), &at, errors);
        probes(one, &at, errors);
        for (port_index, port) in list(one, "ports").iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let identity = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if number != 0 && spec["hostNetwork"] == true && port["containerPort"].as_i64() != Some(number) {
                let ports = at.child("ports");
                let at = ports.index(port_index);
                let at = at.child("hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&at, number, detail));
            }
            if number != 0 && !host_ports.insert(identity.clone()) {
                errors.push(FieldError::duplicate(
                    &at.child("ports").index(port_index).child("hostPort"),
                    identity,
                ));
            }
        }
    }
    let init = path.child("initContainers");
    for (index, one) in list(spec, "initContainers").iter().enumerate() {
        let at = init.index(index);
        container(one, volumes, &at, errors);
        let name = text(one, "name");
        if !name.is_empty() && !names_seen.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if text(one, "restartPolicy") == "Always" {
            probes(one, &at, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if one[field].is_object() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
        }
    }
}

fn container(container: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        invalid_each(errors, &path.child("name"), name, names::dns_label(name));
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, detail));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, errors);
    ports(container, &path.child("ports"), errors);
    environment(container, &path.child("env"), errors);
    environment_sources(container, &path.child("envFrom"), errors);
    mounts(container, volumes, &path.child("volumeMounts"), errors);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    requirements(&container["resources"], &path.child("resources"), errors);
    security::container(&container["securityContext"], &path.child("securityContext"), errors);
}

fn ports(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let problems = names::port_name(name);
            if problems.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
            invalid_each(errors, &at.child("name"), name, problems);
        }
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => errors.push(FieldError::required(&at.child("containerPort"), "")),
            number => number_each(errors, &at.child("containerPort"), number),
        }
        match port["hostPort"].as_i64().unwrap_or(0) {
            0 => {}
            number => number_each(errors, &at.child("hostPort"), number),
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
    }
}

/// Adds an error where the number is no port.
pub(super) fn number_each(errors: &mut Errors, path: &Path<'_>, number: i64) {
    errors.extend(
        names::port_number(number).into_iter().map(|message| FieldError::invalid(path, number, message)),
    );
}

fn environment(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            invalid_each(errors, &at.child("name"), name, names::env_name(name));
        }
        let from = &variable["valueFrom"];
        let Some(sources) = from.as_object() else { continue };
        let from_path = at.child("valueFrom");
        let sources = sources.values().filter(|source| !source.is_null()).count();
        let detail = match sources {
            0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            1 if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => {
                references(from, &from_path, errors);
                for field in ["configMapKeyRef", "secretKeyRef"] {
                    if from[field].is_object() && text(&from[field], "key").is_empty() {
                        errors.push(FieldError::required(&from_path.child(field).child("key"), ""));
                    }
                }
                continue;
            }
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(&from_path, "", detail));
    }
}

/// Variables that tell of the Pod itself.
fn references(from: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    const RESOURCES: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    if from["fieldRef"].is_object() {
        let field = text(&from["fieldRef"], "fieldPath");
        let at = path.child("fieldRef");
        let at = at.child("fieldPath");
        let keyed =
            ["metadata.labels['", "metadata.annotations['"].iter().any(|start| field.starts_with(start));
        if field.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !keyed && !FIELDS.contains(&field) {
            let detail = format!("error converting fieldPath: field label not supported: {field}");
            errors.push(FieldError::invalid(&at, field, detail));
        }
    }
    if from["resourceFieldRef"].is_object() {
        let name = text(&from["resourceFieldRef"], "resource");
        let at = path.child("resourceFieldRef");
        let at = at.child("resource");
        let pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| name.starts_with(start));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !pages && !RESOURCES.contains(&name) {
            errors.push(FieldError::not_supported(&at, name, &RESOURCES));
        }
    }
}

fn environment_sources(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let at = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            invalid_each(errors, &at.child("prefix"), prefix, names::env_name(prefix));
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|field| source[*field].is_object()).collect();
        for field in &given {
            if text(&source[*field], "name").is_empty() {
                errors.push(FieldError::required(&at.child(field).child("name"), ""));
            }
        }
        let detail = match given.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", detail));
    }
}

fn hooks(container: &Value, grace: i64, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("lifecycle");
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if !hook.is_object() {
            continue;
        }
        let at = at.child(name);
        let given: Vec<&str> = ["exec", "httpGet", "tcpSocket", "sleep"]
            .into_iter()
            .filter(|handler| hook[*handler].is_object())
            .collect();
        if given.is_empty() {
            errors.push(FieldError::required(&at, "must specify a handler type"));
        }
        for extra in given.iter().skip(1) {
            errors.push(FieldError::forbidden(&at.child(extra), "may not specify more than 1 handler type"));
        }
        handler(hook, &at, errors);
        let seconds = hook["sleep"]["seconds"].as_i64().unwrap_or(0);
        if hook["sleep"].is_object() && !(0..=grace).contains(&seconds) {
            let detail =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            errors.push(FieldError::invalid(&at.child("sleep"), seconds, detail));
        }
    }
}

/// What a probe or a hook does.
fn handler(of: &Value, path: &Path<'_>, errors: &mut Errors) {
    if of["exec"].is_object() && list(&of["exec"], "command").is_empty() {
        errors.push(FieldError::required(&path.child("exec").child("command"), ""));
    }
    for name in ["httpGet", "tcpSocket", "grpc"] {
        if of[name].is_object() {
            port(&of[name]["port"], &path.child(name).child("port"), errors);
        }
    }
    if of["httpGet"].is_object() {
        let scheme = text(&of["httpGet"], "scheme");
        let at = path.child("httpGet");
        if !matches!(scheme, "" | "HTTP" | "HTTPS") {
            errors.push(FieldError::not_supported(&at.child("scheme"), scheme, &["HTTP", "HTTPS"]));
        }
    }
}

fn mounts(container: &Value, volumes: &BTreeSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if !seen.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "must be unique"));
        }
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(&at.child("subPathExpr"), text(mount, "subPathExpr"), detail));
        }
        // Below the list, not the item: so kube-apiserver says it.
        for field in ["subPath", "subPathExpr"] {
            security::descending(text(mount, field), &path.child(field), errors);
        }
        if mount["mountPropagation"].is_string() {
            one_of(mount, "mountPropagation", &["Bidirectional", "HostToContainer", "None"], path, errors);
        }
    }
}

fn probes(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if !probe.is_object() {
            continue;
        }
        let at = path.child(field);
        let handlers: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc"]
            .into_iter()
            .filter(|handler| probe[*handler].is_object())
            .collect();
        if handlers.is_empty() {
            errors.push(FieldError::required(&at, "must specify a handler type"));
        }
        for extra in handlers.iter().skip(1) {
            errors.push(FieldError::forbidden(&at.child(extra), "may not specify more than 1 handler type"));
        }
        handler(probe, &at, errors);
        for count in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe, count, &at, errors);
        }
        if field != "readinessProbe"
            && let Some(successes) = probe["successThreshold"].as_i64().filter(|successes| *successes != 1)
        {
            errors.push(FieldError::invalid(&at.child("successThreshold"), successes, "must be 1"));
        }
    }
}

/// A port by number or name.
pub(super) fn port(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(name) => invalid_each(errors, path, name, names::port_name(name)),
        other => number_each(errors, path, other.as_i64().unwrap_or(0)),
    }
}

//! By which fields lists of Pods and of events may be selected, and where these stand.
//!
//! Constants alone, which rows name.

use karmada_definitions::kind_row::SelectableField;

/// What Pods may be selected by.
pub(super) const POD: &[SelectableField] = &[
    SelectableField::at("spec.nodeName", &[&["spec", "nodeName"]]),
    SelectableField::at("spec.restartPolicy", &[&["spec", "restartPolicy"]]),
    SelectableField::at("spec.schedulerName", &[&["spec", "schedulerName"]]),
    SelectableField::at("spec.serviceAccountName", &[&["spec", "serviceAccountName"]]),
    SelectableField::at("spec.hostNetwork", &[&["spec", "hostNetwork"]]).or("false"),
    SelectableField::at("status.phase", &[&["status", "phase"]]),
    SelectableField::at("status.podIP", &[&["status", "podIP"]]),
    SelectableField::at("status.podIPs", &[&["status", "podIPs"]]),
    SelectableField::at("status.nominatedNodeName", &[&["status", "nominatedNodeName"]]),
];

/// Who reported an event, in the older form; who reports in the newer one leaves the source empty.
const REPORTER: SelectableField =
    SelectableField::at("source", &[&["source", "component"], &["reportingComponent"]]);

/// What events of the core group may be selected by.
pub(super) const EVENT: &[SelectableField] = &[
    SelectableField::at("involvedObject.kind", &[&["involvedObject", "kind"]]),
    SelectableField::at("involvedObject.namespace", &[&["involvedObject", "namespace"]]),
    SelectableField::at("involvedObject.name", &[&["involvedObject", "name"]]),
    SelectableField::at("involvedObject.uid", &[&["involvedObject", "uid"]]),
    SelectableField::at("involvedObject.apiVersion", &[&["involvedObject", "apiVersion"]]),
    SelectableField::at("involvedObject.resourceVersion", &[&["involvedObject", "resourceVersion"]]),
    SelectableField::at("involvedObject.fieldPath", &[&["involvedObject", "fieldPath"]]),
    SelectableField::at("reason", &[&["reason"]]),
    SelectableField::at("reportingComponent", &[&["reportingComponent"]]),
    REPORTER,
    SelectableField::at("type", &[&["type"]]),
];

/// What events of their own group may be selected by. They are stored in their core form.
pub(super) const EVENTS_V1: &[SelectableField] = &[
    SelectableField::at("regarding.kind", &[&["involvedObject", "kind"]]),
    SelectableField::at("regarding.namespace", &[&["involvedObject", "namespace"]]),
    SelectableField::at("regarding.name", &[&["involvedObject", "name"]]),
    SelectableField::at("regarding.uid", &[&["involvedObject", "uid"]]),
    SelectableField::at("regarding.apiVersion", &[&["involvedObject", "apiVersion"]]),
    SelectableField::at("regarding.resourceVersion", &[&["involvedObject", "resourceVersion"]]),
    SelectableField::at("regarding.fieldPath", &[&["involvedObject", "fieldPath"]]),
    SelectableField::at("reason", &[&["reason"]]),
    SelectableField::at("reportingController", &[&["reportingComponent"]]),
    SelectableField::at("type", &[&["type"]]),
];

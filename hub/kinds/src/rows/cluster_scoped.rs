//! Rows of what concerns the cluster as a whole: rights, admission, extensions, certificates, priorities, leases, events.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::GO`.

use karmada_definitions::crd;
use karmada_definitions::kind_row::MetadataCheck::{Changed, New};
use karmada_definitions::kind_row::{ACTED_ON, BuiltinKind, Generation, KindRow, Rules, SelectableField};
use karmada_schema::apply::ResetFields;
use karmada_schema::metadata::NameRule;

use super::{Group, selectable};
use crate::api_service;
use crate::conversion::{event_from_core, event_to_core};
use crate::table::{cells::name_and_created, cluster_scoped as cells, core as core_cells};
use crate::validation::{admission_registration, certificates, events, facts, warnings};
use crate::{disabled_fields, validation};

pub(super) const GROUPS: &[Group] = &[
    ("rbac.authorization.k8s.io", RBAC),
    ("admissionregistration.k8s.io", ADMISSION),
    (crd::GROUP, EXTENSIONS),
    (api_service::GROUP, REGISTRATION),
    ("certificates.k8s.io", CERTIFICATES),
    ("flowcontrol.apiserver.k8s.io", FLOW_CONTROL),
    ("scheduling.k8s.io", SCHEDULING),
    ("coordination.k8s.io", COORDINATION),
    ("node.k8s.io", NODE),
    ("events.k8s.io", EVENTS),
];

const RIGHTS: KindRow = KindRow {
    name: NameRule::PathSegment,
    metadata_checks: &[New, Changed],
    creates_on_update: true,
    ..KindRow::GO
};

const RBAC: &[KindRow] = &[
    KindRow {
        kind: "ClusterRole",
        ..RIGHTS.with(Rules::Facts(facts::RBAC_V1_CLUSTER_ROLE), name_and_created)
    },
    KindRow {
        kind: "ClusterRoleBinding",
        ..RIGHTS.with(Rules::Facts(facts::RBAC_V1_CLUSTER_ROLE_BINDING), cells::role_binding)
    },
    KindRow { kind: "Role", rules: Rules::Facts(facts::RBAC_V1_ROLE), ..RIGHTS },
    KindRow {
        kind: "RoleBinding",
        ..RIGHTS.with(Rules::Facts(facts::RBAC_V1_ROLE_BINDING), cells::role_binding)
    },
];

const REGISTERED: KindRow = KindRow {
    standard_finalizers: false,
    metadata_checks: &[New],
    warn: |new, _, out| warnings::reserved_name(new, out),
    updates_without_version: false,
    status_keeps: ACTED_ON,
    resets: ResetFields::WITH_METADATA,
    generation: Some(Generation::USUAL),
    ..KindRow::GO
};

const WEBHOOKS: KindRow =
    KindRow { generation: Some(Generation { literal: true, ..Generation::USUAL }), ..REGISTERED };

const ADMISSION: &[KindRow] = &[
    KindRow {
        kind: "MutatingWebhookConfiguration",
        ..WEBHOOKS.with(Rules::Compiling(admission_registration::mutating), cells::webhook_configuration)
    },
    KindRow {
        kind: "ValidatingWebhookConfiguration",
        ..WEBHOOKS.with(Rules::Compiling(admission_registration::validating), cells::webhook_configuration)
    },
    KindRow {
        kind: "ValidatingAdmissionPolicy",
        ..REGISTERED.with(
            Rules::Compiling(|new, _, compiling, errors| {
                admission_registration::policy(new, compiling, errors);
            }),
            cells::admission_policy,
        )
    },
    KindRow {
        kind: "ValidatingAdmissionPolicyBinding",
        ..REGISTERED.with(
            Rules::Facts(facts::ADMISSIONREGISTRATION_V1_VALIDATING_ADMISSION_POLICY_BINDING),
            cells::admission_policy_binding,
        )
    },
];

const EXTENSIONS: &[KindRow] = &[KindRow {
    kind: "CustomResourceDefinition",
    standard_finalizers: false,
    rules: Rules::Compiling(crd::validate),
    warn: |new, old, out| out.extend(crd::unknown_formats(new, old)),
    first_status: |object, _| Some(crd::first_status(object)),
    prepare_update: crd::remember_storage_version,
    mark_deleted: Some(crd::mark_deleted),
    updates_without_version: false,
    status_keeps: ACTED_ON,
    resets: ResetFields::WITH_METADATA,
    generation: Some(Generation::USUAL),
    directory: "apiextensions.k8s.io/customresourcedefinitions",
    ..KindRow::GO
}];

const REGISTRATION: &[KindRow] = &[KindRow {
    kind: "APIService",
    name: NameRule::PathSegment,
    standard_finalizers: false,
    metadata_checks: &[New, Changed],
    rules: Rules::Object(validation::api_service::api_service),
    first_status: |object, now| Some(api_service::first_status(object, now)),
    updates_without_version: false,
    status_keeps: ACTED_ON,
    resets: ResetFields::WITH_METADATA,
    directory: "apiregistration.k8s.io/apiservices",
    cells: Some(cells::api_service),
    ..KindRow::GO
}];

const CERTIFICATES: &[KindRow] = &[KindRow {
    kind: "CertificateSigningRequest",
    known: BuiltinKind::CertificateRequest,
    name: NameRule::Any,
    metadata_checks: &[New, Changed],
    rules: Rules::Facts(facts::CERTIFICATES_V1_CERTIFICATE_SIGNING_REQUEST),
    parts: &[
        ("status", |new, old, errors| certificates::certificate_status(new, old, "status", errors)),
        ("approval", |new, old, errors| certificates::certificate_status(new, old, "approval", errors)),
    ],
    tells_creator: true,
    // A request is not changed once it is made.
    keeps_spec: true,
    resets: ResetFields { by_whole: &["spec"], by_status: &["status.conditions"], ..ResetFields::GO },
    finish_status: crate::certificate_status::finish,
    cells: Some(cells::certificate_signing_request),
    selectable: &[SelectableField::at("spec.signerName", &[&["spec", "signerName"]])],
    ..KindRow::GO
}];

const FLOW: KindRow = KindRow {
    metadata_checks: &[New],
    status_keeps: ACTED_ON,
    resets: ResetFields::WITH_METADATA,
    generation: Some(Generation::USUAL),
    ..KindRow::GO
};

const FLOW_CONTROL: &[KindRow] = &[
    KindRow {
        kind: "FlowSchema",
        ..FLOW.with(Rules::Facts(facts::FLOWCONTROL_V1_FLOW_SCHEMA), cells::flow_schema)
    },
    KindRow {
        kind: "PriorityLevelConfiguration",
        ..FLOW.with(Rules::Facts(facts::FLOWCONTROL_V1_PRIORITY_LEVEL_CONFIGURATION), cells::priority_level)
    },
];

const SCHEDULING: &[KindRow] = &[KindRow {
    kind: "PriorityClass",
    known: BuiltinKind::PriorityClass,
    rules: Rules::Facts(facts::SCHEDULING_V1_PRIORITY_CLASS),
    // Only a create counts.
    generation: Some(Generation { changes: false, ..Generation::USUAL }),
    cells: Some(cells::priority_class),
    ..KindRow::GO
}];

const COORDINATION: &[KindRow] = &[KindRow {
    kind: "Lease",
    standard_finalizers: false,
    rules: Rules::Facts(facts::COORDINATION_V1_LEASE),
    drop_disabled_fields: |new, old| {
        disabled_fields::forget(new, old, "spec", &["strategy", "preferredHolder"]);
    },
    updates_without_version: false,
    creates_on_update: true,
    cells: Some(cells::lease),
    ..KindRow::GO
}];

const NODE: &[KindRow] = &[KindRow {
    kind: "RuntimeClass",
    standard_finalizers: false,
    metadata_checks: &[New, Changed],
    rules: Rules::Facts(facts::NODE_V1_RUNTIME_CLASS),
    updates_without_version: false,
    creates_on_update: true,
    cells: Some(cells::runtime_class),
    ..KindRow::GO
}];

const EVENTS: &[KindRow] = &[KindRow {
    kind: "Event",
    name: NameRule::Late,
    rules: Rules::Change(events::event),
    creates_on_update: true,
    collected: false,
    cells: Some(core_cells::event),
    selectable: selectable::EVENTS_V1,
    to_storage: event_to_core,
    from_storage: event_from_core,
    ..KindRow::GO
}];

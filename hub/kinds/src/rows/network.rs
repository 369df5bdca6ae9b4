//! Rows of networking and discovery.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::GO`.

use karmada_definitions::kind_row::MetadataCheck::{Changed, New};
use karmada_definitions::kind_row::{ACTED_ON, Generation, KindRow, Rules};
use karmada_schema::apply::ResetFields;
use karmada_schema::metadata::NameRule;
use serde_json::json;

use super::Group;
use crate::disabled_fields;
use crate::table::network as cells;
use crate::validation::{facts, network, statuses, warnings};

pub(super) const GROUPS: &[Group] = &[("networking.k8s.io", NETWORKING), ("discovery.k8s.io", DISCOVERY)];

const NETWORKING: &[KindRow] = &[
    KindRow {
        kind: "Ingress",
        metadata_checks: &[Changed, New],
        parts: &[("status", statuses::balancer)],
        warn: warnings::ingress,
        first_status: |_, _| Some(json!({"loadBalancer": {}})),
        directory: "ingress",
        ..KindRow::COUNTED.with(Rules::Facts(facts::NETWORKING_V1_INGRESS), cells::ingress)
    },
    KindRow {
        kind: "IngressClass",
        metadata_checks: &[Changed, New],
        ..KindRow::COUNTED.with(Rules::Change(network::ingress_class), cells::ingress_class)
    },
    KindRow {
        kind: "IPAddress",
        name: NameRule::Address,
        metadata_checks: &[New, Changed],
        ..KindRow::GO.with(Rules::Change(network::ip_address), cells::ip_address)
    },
    KindRow {
        kind: "NetworkPolicy",
        warn: |new, _, out| warnings::policy(new, out),
        generation: Some(Generation { literal: true, ..Generation::USUAL }),
        ..KindRow::GO.with(Rules::Change(network::network_policy), cells::network_policy)
    },
    KindRow {
        kind: "ServiceCIDR",
        parts: &[("status", |_, _, _| {})],
        status_keeps: ACTED_ON,
        resets: ResetFields::WITH_METADATA,
        ..KindRow::GO.with(Rules::Change(network::service_cidr), cells::service_cidr)
    },
];

const DISCOVERY: &[KindRow] = &[KindRow {
    kind: "EndpointSlice",
    metadata_checks: &[New],
    rules: Rules::Facts(facts::DISCOVERY_V1_ENDPOINT_SLICE),
    warn: |new, _, out| warnings::slice(new, out),
    drop_disabled_fields: disabled_fields::endpoint_slice,
    generation: Some(Generation { metadata: Some("labels"), with_dropped: true, ..Generation::USUAL }),
    cells: Some(cells::endpoint_slice),
    ..KindRow::GO
}];

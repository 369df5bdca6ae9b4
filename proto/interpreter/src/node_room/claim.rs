//! Which nodes a pod may be put on: node selector, required node affinity, taints.
//!
//! In: what a replica asks of a node, and nodes. Out: yes or no. Affinity terms are alternatives; a term that is empty
//! or cannot be read matches no node, and a list without any term is no restriction.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};
use karmada_api::binding::NodeClaim;
use karmada_api::selector::tolerates;

use crate::nodes_and_pods::NodeOffer;

/// What a replica asks of a node, read once for many nodes.
pub(super) struct Claim<'a> {
    claim: Option<&'a NodeClaim>,
    /// The terms that can match; none where there is no required affinity.
    terms: Option<Vec<Vec<Requirement<'a>>>>,
}

/// One condition on a node.
struct Requirement<'a> {
    on: On<'a>,
    test: Test<'a>,
}

/// What of a node is looked at.
enum On<'a> {
    Label(&'a str),
    Name,
}

/// What it shall be.
enum Test<'a> {
    In(&'a [String]),
    NotIn(&'a [String]),
    Exists,
    DoesNotExist,
    Above(i64),
    Below(i64),
}

impl<'a> Claim<'a> {
    pub(super) fn of(claim: Option<&'a NodeClaim>) -> Self {
        let terms = claim.and_then(|claim| claim.hard_node_affinity.as_ref());
        let terms = terms.map(|affinity| affinity.node_selector_terms.as_slice()).unwrap_or_default();
        let usable = || terms.iter().filter_map(term).collect();
        Self { claim, terms: (!terms.is_empty()).then(usable) }
    }

    /// Whether a replica may be put on `node`.
    pub(super) fn allows(&self, node: &NodeOffer) -> bool {
        let tolerations: &[Toleration] = self.claim.map_or(&[], |claim| &claim.tolerations);
        let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
        let selected =
            |claim: &NodeClaim| claim.node_selector.iter().all(|(k, v)| node.labels.get(k) == Some(v));
        let near = |term: &Vec<Requirement<'_>>| term.iter().all(|requirement| requirement.holds(node));
        node.taints.iter().all(tolerated)
            && self.claim.is_none_or(selected)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(near))
    }
}

/// Reads a term; none where no node can match it.
fn term(term: &NodeSelectorTerm) -> Option<Vec<Requirement<'_>>> {
    let labels = term.match_expressions.iter().flatten().map(label_requirement);
    let fields = term.match_fields.iter().flatten().map(field_requirement);
    let all: Option<Vec<Requirement<'_>>> = labels.chain(fields).collect();
    all.filter(|requirements| !requirements.is_empty())
}

/// One on a label; none where it cannot be read.
fn label_requirement(requirement: &NodeSelectorRequirement) -> Option<Requirement<'_>> {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = || match values {
        [value] => value.parse::<i64>().ok(),
        _ => None,
    };
    let test = match requirement.operator.as_str() {
        "In" if !values.is_empty() => Test::In(values),
        "NotIn" if !values.is_empty() => Test::NotIn(values),
        "Exists" if values.is_empty() => Test::Exists,
        "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
        "Gt" => Test::Above(number()?),
        "Lt" => Test::Below(number()?),
        _ => return None,
    };
    Some(Requirement { on: On::Label(&requirement.key), test })
}

/// One on a field: only the name can be asked for, and only by one value. None where it cannot be read.
fn field_requirement(requirement: &NodeSelectorRequirement) -> Option<Requirement<'_>> {
    let values = requirement.values.as_deref().filter(|values| values.len() == 1)?;
    let test = match requirement.operator.as_str() {
        "In" => Test::In(values),
        "NotIn" => Test::NotIn(values),
        _ => return None,
    };
    (requirement.key == "metadata.name").then_some(Requirement { on: On::Name, test })
}

impl Requirement<'_> {
    fn holds(&self, node: &NodeOffer) -> bool {
        let found = match self.on {
            On::Label(key) => node.labels.get(key),
            On::Name => Some(&node.name),
        };
        let number = || found.and_then(|value| value.parse::<i64>().ok());
        match self.test {
            Test::In(values) => found.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => !found.is_some_and(|value| values.contains(value)),
            Test::Exists => found.is_some(),
            Test::DoesNotExist => found.is_none(),
            Test::Above(bound) => number().is_some_and(|value| value > bound),
            Test::Below(bound) => number().is_some_and(|value| value < bound),
        }
    }
}

//! Provider, region and zones of a Cluster, as its agent tells them: at the join, and later, as Nodes often come after it and their labels after them.
//!
//! In: the Cluster as it is, what its agent tells. Out: which fields are open, and the Cluster with what was told.
//! What a person wrote stays, and so does what a person took out: each field is said once, by whomever, and the Cluster bears a note of that ([`SAID`]).

use std::collections::BTreeSet;

use karmada_api::object;
use karmada_api::strings::annotations::TOPOLOGY_SAID as SAID;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The fields.
const FIELDS: [&str; 3] = ["provider", "region", "zones"];

/// Where a cluster is, as its agent tells it, or its spec says it; empty where that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Told {
    /// `spec.provider`.
    #[serde(deserialize_with = "null_is_empty")]
    pub provider: String,
    /// `spec.region`.
    #[serde(deserialize_with = "null_is_empty")]
    pub region: String,
    /// `spec.zones`.
    #[serde(deserialize_with = "null_is_empty")]
    pub zones: Vec<String>,
}

impl Told {
    /// Each field that is told, and what.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let all = FIELDS.into_iter().zip([json!(self.provider), json!(self.region), json!(self.zones)]);
        all.filter(|(_, value)| *value != json!("") && *value != json!([])).collect()
    }
}

/// What matters here of a Cluster, whose status may be long.
#[derive(Debug, Deserialize)]
pub struct Seen {
    metadata: Metadata,
    #[serde(default, deserialize_with = "null_is_empty")]
    spec: Told,
    #[serde(default, deserialize_with = "null_is_empty")]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "null_is_empty")]
    annotations: Note,
}

/// Of all annotations the one: [`SAID`].
#[derive(Debug, Default, Deserialize)]
struct Note {
    #[serde(default, rename = "edge.karmada.io/topology-said")]
    said: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "null_is_empty")]
    node_summary: NodeSummary,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSummary {
    total_num: i64,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Seen {
    fn noted(&self) -> BTreeSet<&str> {
        self.metadata.annotations.said.split(',').map(str::trim).filter(|field| !field.is_empty()).collect()
    }

    /// Whether a field is said that is not noted, so that it would not stay out if it was taken out.
    pub fn is_unnoted(&self) -> bool {
        let noted = self.noted();
        self.spec.fields().iter().any(|(field, _)| !noted.contains(field))
    }

    /// The fields that nobody says, and nobody ever said.
    pub fn open_fields(&self) -> BTreeSet<&'static str> {
        let (noted, said) = (self.noted(), self.spec.fields());
        let is_open = |field: &&str| !noted.contains(field) && said.iter().all(|(of, _)| of != field);
        FIELDS.into_iter().filter(is_open).collect()
    }

    /// What is told of open fields.
    pub fn news(&self, told: &Told) -> Vec<(&'static str, Value)> {
        let open = self.open_fields();
        told.fields().into_iter().filter(|(field, _)| open.contains(field)).collect()
    }

    /// How many Nodes there are.
    pub fn nodes(&self) -> i64 {
        self.status.node_summary.total_num
    }
}

/// The Cluster with what its agent tells of open fields, and with a note of every field that is said then; none where that changes nothing.
pub fn filled(cluster: &Value, told: &Told) -> Option<Value> {
    let seen = Seen::deserialize(cluster).ok()?;
    let news = seen.news(told);
    if news.is_empty() && !seen.is_unnoted() {
        return None;
    }
    let (mut noted, said) = (seen.noted(), seen.spec.fields());
    noted.extend(said.iter().chain(&news).map(|(field, _)| *field));
    let note = noted.into_iter().collect::<Vec<_>>().join(",");
    let mut wanted = cluster.clone();
    object::set_annotation(&mut wanted, SAID, &note);
    for (field, value) in news {
        wanted["spec"][field] = value;
    }
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(region: &str, zones: &[&str]) -> Told {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        Told { region: region.to_owned(), zones, ..Told::default() }
    }

    #[test]
    fn what_nobody_said_is_filled_once() {
        let bare = json!({"metadata": {"name": "a"}, "spec": {"id": "u"}});
        assert_eq!(seen(&bare).open_fields().len(), 3);
        assert_eq!(filled(&bare, &Told::default()), None, "nothing is told");
        let one = filled(&bare, &told("eu", &[])).unwrap();
        assert_eq!(one["spec"], json!({"id": "u", "region": "eu"}));
        assert_eq!(one["metadata"]["annotations"][SAID], "region");
        assert_eq!(filled(&one, &told("us", &[])), None, "what is said stays");
        let both = filled(&one, &told("us", &["a", "b"])).unwrap();
        assert_eq!(both["spec"], json!({"id": "u", "region": "eu", "zones": ["a", "b"]}));
        assert_eq!(both["metadata"]["annotations"][SAID], "region,zones");
        // A person takes it out, or says another.
        let mut taken_out = both;
        taken_out["spec"].as_object_mut().unwrap().remove("region");
        assert_eq!(filled(&taken_out, &told("us", &["c"])), None);
        let mut other = bare;
        (other["spec"]["region"], other["spec"]["zones"]) = (json!("mars"), json!([]));
        let filled = filled(&other, &told("eu", &["c"])).unwrap();
        assert_eq!(filled["spec"], json!({"id": "u", "region": "mars", "zones": ["c"]}));
        assert_eq!(filled["metadata"]["annotations"][SAID], "region,zones");
    }

    #[test]
    fn what_a_person_said_and_took_out_stays_out() {
        let said = json!({"metadata": {"name": "a"}, "spec": {"id": "u", "region": "mars"}});
        assert!(seen(&said).is_unnoted());
        let noted = filled(&said, &Told::default()).unwrap();
        assert!(!seen(&noted).is_unnoted());
        assert_eq!(filled(&noted, &Told::default()), None, "nothing changed");
        for mut taken_out in [noted, filled(&said, &told("eu", &["a"])).unwrap()] {
            taken_out["spec"]["region"] = Value::Null;
            assert_eq!(filled(&taken_out, &told("eu", &[])), None);
        }
    }

    #[test]
    fn a_cluster_is_seen_whatever_it_leaves_out() {
        for bare in [
            json!({"metadata": {}}),
            json!({"metadata": {"annotations": null}, "spec": null, "status": null}),
        ] {
            assert_eq!((seen(&bare).nodes(), seen(&bare).open_fields().len()), (0, 3), "{bare}");
        }
        let whole = json!({"metadata": {"annotations": {SAID: "zones, region", "b": "c"}}, "spec": {"provider": "p", "zones": null},
            "status": {"nodeSummary": {"totalNum": 3, "readyNum": 2}, "conditions": []}});
        assert_eq!((seen(&whole).nodes(), seen(&whole).open_fields().len()), (3, 0));
        assert_eq!(
            filled(&json!({"metadata": {}, "spec": {"region": 5}}), &told("eu", &[])),
            None,
            "what cannot be read stays"
        );
    }

    fn seen(cluster: &Value) -> Seen {
        Seen::deserialize(cluster).unwrap()
    }
}

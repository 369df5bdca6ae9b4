//! A workload in a small fleet whose clusters report what is so: as many Pods as there are, and what they leave of the nodes.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_core::cluster_expressions::ClusterExpressions;
use karmada_core::scheduler::Input;
use karmada_core::scheduler::estimator_answers::Exact;
use serde_json::{Value, json};

use crate::better_plan::{Facts, Step, afresh, decide};
use crate::movability::Stays;
use crate::move_note::MoveNote;

/// Grades of nodes, by what of CPU is free on them at least.
const GRADES: [i64; 6] = [0, 1, 2, 4, 8, 16];

/// A cluster.
#[derive(Clone, Debug)]
pub struct Site {
    /// What each node has for this workload: whole CPUs, one for each replica.
    pub nodes: Vec<i64>,
    /// Whether it tells its nodes by grades.
    pub is_graded: bool,
    pub is_ready: bool,
    pub is_cordoned: bool,
    /// Whether it says how much room it has.
    pub tells: bool,
}

impl Site {
    pub fn of(nodes: &[i64]) -> Site {
        Site { nodes: nodes.to_vec(), is_graded: false, is_ready: true, is_cordoned: false, tells: true }
    }

    pub fn room(&self) -> i64 {
        self.nodes.iter().sum()
    }

    /// What is free on each node, beside so many replicas on the first nodes.
    fn free(&self, mut replicas: i64) -> Vec<i64> {
        let node = |room: &i64| {
            let here = replicas.min(*room);
            replicas -= here;
            room - here
        };
        self.nodes.iter().map(node).collect()
    }

    fn cluster(&self, name: &str, replicas: i64) -> Cluster {
        let ready = if self.is_ready { "True" } else { "False" };
        let taints = if self.is_cordoned { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
        let grade = |from: usize| {
            let end = GRADES.get(from + 1).map_or("9000".to_owned(), i64::to_string);
            json!({"grade": from, "ranges": [{"name": "cpu", "min": GRADES[from].to_string(), "max": end}]})
        };
        let free = self.free(replicas);
        let count = |from: usize| {
            let is_of = |free: &&i64| GRADES.iter().rposition(|least| least <= *free) == Some(from);
            json!({"grade": from, "count": free.iter().filter(is_of).count()})
        };
        let (mut models, mut counts) = (Vec::new(), Vec::new());
        if self.is_graded {
            models = (0..GRADES.len()).map(grade).collect();
            counts = (0..GRADES.len()).map(count).collect();
        }
        let summary = json!({"allocatable": {"cpu": self.room().to_string(), "pods": "9000"},
            "allocated": {"cpu": replicas.to_string(), "pods": replicas.to_string()}, "allocatableModelings": counts});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"at": name}},
            "spec": {"taints": taints, "resourceModels": models},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": if self.tells { summary } else { Value::Null }}}))
        .unwrap()
    }
}

/// A workload and its fleet.
#[derive(Clone, Debug)]
pub struct World {
    pub sites: BTreeMap<String, Site>,
    pub placement: Value,
    pub placed: BTreeMap<String, i64>,
    /// The note of its last move.
    pub note: Option<String>,
    /// Whether agents are asked, and who answers.
    pub agents: Option<Vec<String>>,
    pub now: Timestamp,
}

pub fn weighted() -> Value {
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}})
}

pub fn aggregated() -> Value {
    json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}})
}

impl World {
    /// Clusters with one node of so much room each, and who has how many replicas.
    pub fn new(placement: Value, sites: &[(&str, i64)], placed: &[(&str, i64)]) -> World {
        let name = |(name, number): &(&str, i64)| ((*name).to_owned(), *number);
        World {
            sites: sites.iter().map(|(name, room)| ((*name).to_owned(), Site::of(&[*room]))).collect(),
            placement,
            placed: placed.iter().map(name).collect(),
            note: None,
            agents: None,
            now: "2026-05-01T12:00:00Z".parse().unwrap(),
        }
    }

    pub fn replicas(&self) -> i64 {
        self.placed.values().sum()
    }

    pub fn clusters(&self) -> Vec<Cluster> {
        let has = |name: &String| self.placed.get(name).copied().unwrap_or(0);
        self.sites.iter().map(|(name, site)| site.cluster(name, has(name))).collect()
    }

    /// The binding as JSON: scheduled, and whole where it runs.
    pub fn object(&self) -> Value {
        let clusters: Vec<Value> =
            self.placed.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let item = |(name, ready): (&String, &i64)| {
            let status = json!({"replicas": ready, "readyReplicas": ready, "updatedReplicas": ready});
            json!({"clusterName": name, "applied": true, "health": "Healthy", "status": status})
        };
        let mut notes = json!({"policy.karmada.io/applied-placement": self.placement.to_string()});
        if let Some(note) = &self.note {
            notes["edge.karmada.io/rebalanced"] = json!(note);
        }
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-deployment", "namespace": "shop", "generation": 1, "annotations": notes,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u"},
                "replicas": self.replicas(), "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "schedulerName": "default-scheduler", "placement": self.placement, "clusters": clusters},
            "status": {"schedulerObservedGeneration": 1, "lastScheduledTime": "2026-05-01T11:00:00Z",
                "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2026-05-01T11:00:00Z"}],
                "aggregatedStatus": self.placed.iter().map(item).collect::<Vec<_>>()}})
    }

    pub fn binding(&self, edit: impl FnOnce(&mut Value)) -> ResourceBinding {
        let mut object = self.object();
        edit(&mut object);
        serde_json::from_value(object).unwrap()
    }

    /// What the agents answer of their nodes.
    fn exact(&self) -> Exact {
        let of = |name: &String| {
            let site = self.sites.get(name)?;
            Some((name.clone(), site.free(self.placed.get(name).copied().unwrap_or(0)).iter().sum()))
        };
        self.agents.iter().flatten().filter_map(of).collect()
    }

    pub fn decide(&self, most: i64) -> Result<Step, Stays> {
        self.decide_of(&self.binding(|_| {}), most)
    }

    pub fn decide_of(&self, binding: &ResourceBinding, most: i64) -> Result<Step, Stays> {
        self.decide_by(binding, most, None)
    }

    /// The same, where the policy has expressions.
    pub fn decide_by(
        &self,
        binding: &ResourceBinding,
        most: i64,
        expressions: Option<&dyn ClusterExpressions>,
    ) -> Result<Step, Stays> {
        let (afresh, clusters) = (afresh(binding, self.now), self.clusters());
        let input = Input { exact: self.exact(), expressions, ..Input::plain(&afresh, &clusters) };
        let agents_are_asked = self.agents.is_some();
        decide(&Facts { binding, afresh: &input, agents_are_asked, now: self.now }, most)
    }

    /// Everything is as the step has it, and whole again.
    pub fn take(&mut self, step: &Step) {
        self.placed =
            step.clusters.iter().map(|target| (target.name.clone(), i64::from(target.replicas))).collect();
        self.note = Some(serde_json::to_string(&step.note).unwrap());
    }

    /// When the rest after its last move ends.
    pub fn rests_until(&self) -> Option<Timestamp> {
        let note: MoveNote = serde_json::from_str(self.note.as_deref()?).unwrap();
        Some(note.at + SignedDuration::from_secs(note.rest_seconds))
    }

    pub fn wait(&mut self, minutes: i64) {
        self.now += SignedDuration::from_mins(minutes);
    }

    /// Who has how many replicas, in words.
    pub fn stands(&self) -> String {
        let words = self.placed.iter().map(|(name, replicas)| format!("{name}{replicas}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

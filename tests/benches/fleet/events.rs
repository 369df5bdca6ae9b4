//! The events that are measured, one after the other on the same fleet.
//!
//! In: a fleet at rest. Out: rows.

use karmada_controllers::port::{Api, DeletionPropagation, Key};
use serde_json::json;

use crate::fleet::{self, Size, change, cluster_name, clusters, deployment_name, kind};
use crate::gauge::Gauge;

const POLICY_API: &str = "policy.karmada.io/v1alpha1";

/// One run over a fleet.
pub struct Bench<'a> {
    /// The hub.
    pub api: &'a dyn Api,
    /// What is measured.
    pub gauge: &'a Gauge,
    /// How much there is.
    pub size: Size,
    /// How often each event comes.
    pub times: usize,
}

impl Bench<'_> {
    /// Every event.
    pub async fn run(&self) {
        self.statuses().await;
        self.templates().await;
        self.policies().await;
        self.clusters().await;
        self.overrides().await;
        self.joins().await;
    }

    async fn statuses(&self) {
        let (api, resource) = (self.api, clusters(self.api));
        let report = async |time: usize, pods: usize| {
            let name = cluster_name(time % self.size.clusters);
            change(api, &resource, ("", &name), true, |cluster| cluster["status"] = fleet::status(pods))
                .await;
        };
        self.gauge
            .measure("Cluster status write", self.times, async |time| report(time, 20 + time).await)
            .await;
        let both = async |time: usize| {
            report(time, 60 + time).await;
            self.edit_template(time, 100 + time).await;
        };
        self.gauge.measure("Cluster status write, then a template change", self.times, both).await;
    }

    async fn edit_template(&self, number: usize, tag: usize) {
        let (namespace, name) = deployment_name(number % self.size.bindings);
        change(self.api, &kind(self.api, "apps/v1", "Deployment"), (&namespace, &name), false, |template| {
            template["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("example.org/app:{tag}"));
        })
        .await;
    }

    async fn templates(&self) {
        self.gauge
            .measure("template change", self.times, async |time| self.edit_template(time, 200 + time).await)
            .await;
        let deployments = kind(self.api, "apps/v1", "Deployment");
        let report = async |time: usize| {
            let (namespace, name) = deployment_name(time % self.size.bindings);
            change(self.api, &deployments, (&namespace, &name), true, |template| {
                template["status"]["observedGeneration"] = json!(900 + time);
            })
            .await;
        };
        self.gauge.measure("template status write", self.times, report).await;
    }

    async fn policies(&self) {
        let policies = kind(self.api, POLICY_API, "ClusterPropagationPolicy");
        let edit = async |time: usize| {
            change(self.api, &policies, ("", &format!("policy-{:05}", time % 2)), false, |policy| {
                policy["spec"]["placement"]["clusterTolerations"] =
                    json!([{"key": format!("k{time}"), "operator": "Exists"}]);
            })
            .await;
        };
        self.gauge.measure("policy edit", self.times, edit).await;
    }

    async fn clusters(&self) {
        let resource = clusters(self.api);
        let label = async |time: usize| {
            change(self.api, &resource, ("", &cluster_name(7)), false, |cluster| {
                cluster["metadata"]["labels"]["note"] = json!(format!("n{time}"));
            })
            .await;
        };
        self.gauge.measure("cluster label change", self.times, label).await;
        let flap = async |time: usize| {
            change(self.api, &resource, ("", &cluster_name(8)), false, |cluster| {
                let taint = json!([{"key": "maintenance", "value": "now", "effect": "NoSchedule"}]);
                cluster["spec"]["taints"] = if time.is_multiple_of(2) { taint } else { json!([]) };
            })
            .await;
        };
        self.gauge.measure("taint flap", self.times, flap).await;
    }

    async fn overrides(&self) {
        let overrides = kind(self.api, POLICY_API, "OverridePolicy");
        let (namespace, name) = deployment_name(3);
        let policy = json!({"metadata": {"name": "one", "namespace": namespace},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"edited": "0"}}]}}]}});
        self.api.create(&overrides, policy).await.expect("an override policy");
        let edit = async |time: usize| {
            change(self.api, &overrides, (&namespace, "one"), false, |policy| {
                let value = json!({"edited": format!("{}", time + 1)});
                policy["spec"]["overrideRules"][0]["overriders"]["labelsOverrider"][0]["value"] = value;
            })
            .await;
        };
        self.gauge.measure("override change", self.times, edit).await;
    }

    async fn joins(&self) {
        let resource = clusters(self.api);
        let join = async |time: usize| {
            let number = self.size.clusters + time;
            self.api.create(&resource, fleet::cluster(number, 0)).await.expect("a cluster");
            let ready = |cluster: &mut serde_json::Value| cluster["status"] = fleet::status(10);
            change(self.api, &resource, ("", &cluster_name(number)), true, ready).await;
        };
        self.gauge.measure("join", self.times, join).await;
        let leave = async |time: usize| {
            let key = Key { namespace: "".into(), name: cluster_name(self.size.clusters + time).into() };
            self.api
                .delete(&resource, &key, "", DeletionPropagation::Background)
                .await
                .expect("the cluster goes");
        };
        self.gauge.measure("leave", self.times, leave).await;
    }
}

//! A chart as operators come in, installed on the hub by Helm, and one policy: kinds of its own and objects of them, rights, webhooks. Everything
//! comes to every site that is meant, though no site knew the kinds; it changes with the release, and goes with it.

use serde_json::Value;
use tests::api::{Api, text_at};
use tests::clients::{Clients, programs_or_skip, run};
use tests::folder::workspace_root;
use tests::kubectl::Output;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{Fleet, Site, await_object, get, has, shared};

const NAMESPACE: &str = "watchtower";
const RELEASE: &str = "eddystone";
const DEFINITIONS: [&str; 3] = ["alarmrules", "towers", "horizons"];
/// One policy for all of it: what has the release's label, and the definitions, which Helm installs as they are.
const POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: eddystone}
spec:
  propagateDeps: true
  resourceSelectors:
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: alarmrules.watchtower.example.com}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: towers.watchtower.example.com}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: horizons.watchtower.example.com}
  - {apiVersion: v1, kind: ServiceAccount, labelSelector: &release {matchLabels: {release: eddystone}}}
  - {apiVersion: v1, kind: ConfigMap, labelSelector: *release}
  - {apiVersion: v1, kind: Secret, labelSelector: *release}
  - {apiVersion: v1, kind: Service, labelSelector: *release}
  - {apiVersion: apps/v1, kind: Deployment, labelSelector: *release}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, labelSelector: *release}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, labelSelector: *release}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, labelSelector: *release}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, labelSelector: *release}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, labelSelector: *release}
  - {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, labelSelector: *release}
  - {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, labelSelector: *release}
  - {apiVersion: watchtower.example.com/v1, kind: Horizon, labelSelector: *release}
  - {apiVersion: watchtower.example.com/v1, kind: Tower, labelSelector: *release}
  - {apiVersion: watchtower.example.com/v1, kind: AlarmRule, labelSelector: *release}
  placement: {clusterAffinity: {clusterNames: [north, south]}}
";

/// Helm on the hub.
struct Helm<'a> {
    clients: &'static Clients,
    fleet: &'a Fleet,
}

impl Helm<'_> {
    fn run(&self, args: &[&str]) -> Output {
        let kubeconfig = self.fleet.hub.kubeconfig().display().to_string();
        let home = self.fleet.folder.path().display().to_string();
        let all = [&["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE], args].concat();
        run(&self.clients.helm, &all, &[("HOME", &home), ("KUBECACHEDIR", &home)])
    }

    /// Where each object of the release is, on any server that serves it.
    fn paths(&self, plural: impl Fn(&str, &str) -> (String, bool)) -> Vec<String> {
        let manifest = self.run(&["get", "manifest", RELEASE]).ok();
        let documents = manifest.split("\n---\n").filter(|document| document.contains("kind:"));
        let objects = documents.map(|document| {
            // Only what says of which object it is: Helm's texts are as the templates have them.
            let line = |start: &str| {
                let line = document.lines().find(|line| line.starts_with(start)).unwrap_or_default();
                line.trim_start_matches(start).trim().to_owned()
            };
            let name = document.split("name: ").nth(1).unwrap_or_default();
            let name = name.split([',', '}', '\n']).next().unwrap_or_default().to_owned();
            (line("apiVersion:"), line("kind:"), name)
        });
        let path = |(version, kind, name): (String, String, String)| {
            let (resource, namespaced) = plural(&version, &kind);
            let root = if version.contains('/') { "apis" } else { "api" };
            let place = if namespaced { format!("namespaces/{NAMESPACE}/") } else { String::new() };
            format!("/{root}/{version}/{place}{resource}/{name}")
        };
        objects.map(path).collect()
    }
}

/// What the resource of a kind is called, and whether it has namespaces.
fn resource(api: &Api, version: &str, kind: &str) -> (String, bool) {
    let root = if version.contains('/') { "apis" } else { "api" };
    let served = get(api, &format!("/{root}/{version}")).unwrap();
    let all = served["resources"].as_array().into_iter().flatten();
    let mut of_kind = all.filter(|one| one["kind"] == kind && !text_at(one, "/name").contains('/'));
    let found = of_kind.next().unwrap_or_else(|| panic!("{version} has no {kind}"));
    (text_at(found, "/name").to_owned(), found["namespaced"] == true)
}

/// Waits until a site has what stands at each of these paths.
#[track_caller]
fn await_all(site: &Site, paths: &[String]) {
    eventually(&format!("all of the release at {}", site.name), TIMEOUT, || {
        let lacking: Vec<String> = paths.iter().filter_map(|path| get(site.api(), path).err()).collect();
        so(lacking.is_empty(), || lacking.join("\n"))
    });
}

/// What came says what the chart says, one field of each sort.
#[track_caller]
fn whole(site: &Site) {
    let at = |group: &str, resource: &str, name: &str| {
        let version = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}") };
        format!("{version}/namespaces/{NAMESPACE}/{resource}/{RELEASE}-{name}")
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = format!("/apis/{rbac}/clusterroles/{RELEASE}-operator");
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/eddystone";
    for (path, field, value) in [
        (at("", "secrets", "certificate"), "/data/tls.crt", "bm9uZQ=="),
        (at("", "services", "webhook"), "/spec/ports/0/name", "https"),
        (at(rbac, "roles", "leases"), "/rules/0/resources/0", "leases"),
        (at(rbac, "rolebindings", "leases"), "/subjects/0/namespace", NAMESPACE),
        (role, "/rules/1/verbs/3", "create"),
        (webhooks.to_owned(), "/webhooks/0/rules/0/resources/0", "towers"),
    ] {
        site.await_object(&path, |object| has(object, field, &Value::from(value)));
    }
}

#[test]
fn an_operators_chart_goes_to_its_sites_with_one_policy() {
    let (Some(fleet), Some(clients)) = (shared(), programs_or_skip()) else { return };
    let helm = Helm { clients, fleet: &fleet };
    let chart = workspace_root().join("tests/tests/e2e/chart").display().to_string();
    // The policy is there first, for kinds that nobody serves yet.
    fleet.hub.kubectl().apply(POLICY);
    helm.run(&["install", RELEASE, &chart, "--create-namespace"]).ok();
    let definitions = DEFINITIONS.map(|plural| {
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.watchtower.example.com")
    });
    let api = fleet.hub.api();
    let mut paths = helm.paths(|version, kind| resource(api, version, kind));
    assert_eq!(paths.len(), 45, "{paths:#?}");
    paths.extend(definitions.clone());
    let sites = ["north", "south"].map(|name| fleet.site(name));
    for site in sites {
        await_all(site, &paths);
        whole(site);
    }
    let operator = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}-operator");
    await_object(api, "the hub", &operator, |object| has(object, "/status/readyReplicas", &Value::from(4)));
    let not_meant = fleet.site("kind-east");
    let elsewhere = not_meant.api().get(&definitions[0]).expect("the site answers");
    assert_eq!(elsewhere, None, "another site has a definition");

    // The next version: all change, some go, and no site has what is gone.
    let rule = |number: u32| {
        format!("/apis/watchtower.example.com/v1/namespaces/{NAMESPACE}/alarmrules/{RELEASE}-{number}")
    };
    helm.run(&["upgrade", RELEASE, &chart, "--set", "rules=20,image=registry.example.org/watchtower:2"]).ok();
    let left = helm.paths(|version, kind| resource(api, version, kind));
    assert_eq!(left.len(), 35, "{left:#?}");
    let settings = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}-settings");
    for site in sites {
        let newer = Value::from("registry.example.org/watchtower:2");
        for number in 0..20 {
            site.await_object(&rule(number), |object| has(object, "/spec/image", &newer));
        }
        (20..30).for_each(|number| site.await_gone(&rule(number)));
        site.await_object(&settings, |object| has(object, "/data/image", &newer));
        site.await_object(&operator, |object| has(object, "/spec/template/spec/containers/0/image", &newer));
        // Nothing else went.
        await_all(site, &left);
    }

    // Helm leaves definitions, and so the sites keep them until they go from the hub.
    helm.run(&["uninstall", RELEASE]).ok();
    for site in sites {
        left.iter().for_each(|path| site.await_gone(path));
        definitions.iter().for_each(|path| drop(site.await_object(path, |_| Ok(()))));
    }
    for plural in DEFINITIONS {
        fleet.hub.kubectl().ok(&[
            "delete",
            "crd",
            &format!("{plural}.watchtower.example.com"),
            "--wait=false",
        ]);
    }
    for site in sites {
        definitions.iter().for_each(|path| site.await_gone(path));
    }
    fleet.hub.kubectl().ok(&["delete", "clusterpropagationpolicy", RELEASE]);
    fleet.remove_namespace(NAMESPACE);
}

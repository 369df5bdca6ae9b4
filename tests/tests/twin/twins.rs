//! The two servers: a real kube-apiserver with its etcd, flags as Karmada runs it, and a hub without its control loops, so that
//! every answer is the API server's alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::member::{Member, MemberOptions};
use tests::wait::{eventually, so};

use crate::client::Caller;

/// Both servers, and what is served.
pub struct Twins {
    /// kube-apiserver.
    pub truth: Caller,
    /// Ours.
    pub hub: Caller,
    /// The resources that kube-apiserver serves, by every name that a sequence may use.
    pub resources: BTreeMap<String, Resource>,
    _member: Member,
    _hub: Hub,
}

/// One served resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub root: String,
    /// `v1` or `GROUP/VERSION`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Its verbs.
    pub verbs: Vec<String>,
    /// Its subresources.
    pub subresources: Vec<String>,
}

impl Twins {
    /// Starts both.
    pub fn start() -> Twins {
        let plugins =
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection";
        // The last flag wins: the harness' own members tell nobody where they are.
        let args = [plugins, "--endpoint-reconciler-type=lease"].map(str::to_owned).into();
        let options = MemberOptions { apiserver_args: args, ..MemberOptions::bare("twin") };
        let (member, hub) = std::thread::scope(|scope| {
            let member = scope.spawn(|| Member::start(options));
            let hub =
                Hub::start(HubOptions { args: vec!["--controllers=none".into()], ..HubOptions::default() });
            (member.join().expect("the member comes up"), hub)
        });
        let truth = Caller::new(&member.kubeconfig());
        install_karmada(&truth);
        let resources = discover(&truth);
        Twins { truth, hub: Caller::new(&hub.kubeconfig()), resources, _member: member, _hub: hub }
    }

    /// The resource of a short name (`pods`, `deployments`, `horizontalpodautoscalers.v1.autoscaling`).
    pub fn resource(&self, name: &str) -> &Resource {
        self.resources.get(name).unwrap_or_else(|| panic!("{name} is not served"))
    }

    /// A sequence's path as it is sent: short ones begin with a resource and mean the sequence's own namespace.
    pub fn path(&self, short: &str, namespace: &str) -> String {
        if short.starts_with('/') {
            return short.to_owned();
        }
        let end = short.find(['/', '?']).unwrap_or(short.len());
        let (name, rest) = short.split_at(end);
        let resource = self.resource(name);
        let place = if resource.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        format!("{}{place}/{}{rest}", resource.root, resource.plural)
    }
}

/// Karmada's kinds as CRDs, where the folder with their schemas is there.
fn install_karmada(truth: &Caller) {
    let folder = std::env::var("FLEET_SHARED")
        .map_or_else(|_| tests::folder::workspace_root().join("../shared"), PathBuf::from);
    let Ok(files) = std::fs::read_dir(folder.join("karmada/schemas")) else {
        println!("skipped: Karmada's kinds ({} is absent)", folder.join("karmada/schemas").display());
        return;
    };
    let mut names = Vec::new();
    for file in
        files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "yaml"))
    {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut crd: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        // No webhook converts here: versions differ in their names alone.
        crd["spec"].as_object_mut().unwrap().remove("conversion");
        names.push(text_at(&crd, "/metadata/name").to_owned());
        let answer = truth.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
        assert_eq!(answer.code, 201, "{}: {}", file.display(), String::from_utf8_lossy(&answer.body));
    }
    for name in names {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        eventually(&name, std::time::Duration::from_secs(30), || {
            let crd = truth.json("GET", &path, &Value::Null).json();
            so(tests::api::condition(&crd, "Established") == "True", || crd["status"].to_string())
        });
    }
}

/// Kinds that a hub does not serve, as `tests/kube/record` has them.
const NOT_SERVED: [&str; 2] = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

fn discover(truth: &Caller) -> BTreeMap<String, Resource> {
    let get = |path: &str| truth.json("GET", path, &Value::Null).json();
    let mut roots = vec![("/api/v1".to_owned(), "v1".to_owned())];
    // A CRD is in discovery a moment after it is established.
    let wanted = ["policy.karmada.io", "work.karmada.io"];
    let groups = eventually("discovery", std::time::Duration::from_secs(30), || {
        let groups = get("/apis");
        let names: Vec<&str> =
            groups["groups"].as_array().unwrap().iter().map(|g| text_at(g, "/name")).collect();
        let any = names.iter().any(|name| name.ends_with("karmada.io"));
        so(!any || wanted.iter().all(|name| names.contains(name)), || format!("{names:?}"))?;
        Ok(groups)
    });
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let name = text_at(version, "/groupVersion").to_owned();
            roots.push((format!("/apis/{name}"), name));
        }
    }
    let mut all = BTreeMap::new();
    for (root, api_version) in roots {
        let list = get(&root);
        let rows = list["resources"].as_array().unwrap();
        for row in rows.iter().filter(|row| !text_at(row, "/name").contains('/')) {
            let plural = text_at(row, "/name").to_owned();
            if NOT_SERVED.contains(&&*plural) {
                continue;
            }
            let parts = rows.iter().filter_map(|r| text_at(r, "/name").strip_prefix(&format!("{plural}/")));
            let resource = Resource {
                root: root.clone(),
                api_version: api_version.clone(),
                kind: text_at(row, "/kind").to_owned(),
                plural: plural.clone(),
                namespaced: row["namespaced"] == true,
                verbs: row["verbs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|v| v.as_str().unwrap().to_owned())
                    .collect(),
                subresources: parts.map(str::to_owned).collect(),
            };
            let long = match api_version.split_once('/') {
                Some((group, version)) => format!("{plural}.{version}.{group}"),
                None => format!("{plural}.v1"),
            };
            all.insert(long, resource.clone());
            all.entry(plural).or_insert(resource);
        }
    }
    all
}

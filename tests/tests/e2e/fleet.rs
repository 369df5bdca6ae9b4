//! The fleet that all tests share: one hub, three members, their agents, and a link in front of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::{Api, condition, text_at};
use tests::built::program;
use tests::faulty_link::Link;
use tests::folder::Folder;
use tests::hub::{Hub, HubOptions};
use tests::kube_binaries::programs_or_skip;
use tests::kubectl::{Kubectl, Output};
use tests::member::{Member, MemberOptions};
use tests::wait::{TIMEOUT, eventually, so};

/// The members, as their Clusters are called. The last one's kubeconfig calls it `Kind_East`.
pub const NAMES: [&str; 3] = ["north", "south", "kind-east"];
/// Labels that tests choose sites by.
const SITES: [(&str, &str); 3] =
    [("north", "tier=gold"), ("south", "tier=silver"), ("kind-east", "tier=none")];

/// A member with its agent, and the link between that and the hub.
pub struct Site {
    /// The Cluster's name.
    pub name: &'static str,
    /// The member.
    pub member: Member,
    /// Its agent.
    pub agent: Agent,
    /// The only way that the agent knows to the hub.
    pub link: Link,
}

/// Hub, members, agents.
pub struct Fleet {
    /// The hub.
    pub hub: Hub,
    /// North, south, east.
    pub sites: Vec<Site>,
    /// What `karmadactl token create --print-register-command` printed.
    pub register: RegisterCommand,
    /// For files of tests.
    pub folder: Folder,
}

static FLEET: OnceLock<RwLock<Fleet>> = OnceLock::new();

fn fleet() -> Option<&'static RwLock<Fleet>> {
    programs_or_skip()?;
    Some(FLEET.get_or_init(|| RwLock::new(Fleet::start())))
}

/// The fleet, for tests that only use it. `None` where members cannot be had; that is said.
pub fn shared() -> Option<RwLockReadGuard<'static, Fleet>> {
    Some(fleet()?.read().unwrap_or_else(PoisonError::into_inner))
}

/// The fleet for one test alone. It is whole, whatever the one before left.
pub fn alone() -> Option<RwLockWriteGuard<'static, Fleet>> {
    let mut fleet = fleet()?.write().unwrap_or_else(PoisonError::into_inner);
    fleet.mend();
    Some(fleet)
}

impl Fleet {
    fn start() -> Fleet {
        let folder = Folder::new("e2e");
        let hub = Hub::start(HubOptions::default());
        let mut options = ["north", "south", "east"].map(MemberOptions::new);
        // A kind that this site lacks until a test gives it.
        options[2].apiserver_args.push("--runtime-config=networking.k8s.io/v1/ingresses=false".to_owned());
        // Its Nodes say where it is, and nobody else does.
        options[2].nodes[0].labels = [("region", "coast"), ("zone", "coast-1")]
            .map(|(what, said)| (format!("topology.kubernetes.io/{what}"), said.to_owned()))
            .to_vec();
        let members = Member::start_all(options);
        let fleet = Fleet::joined(folder, hub, NAMES.into_iter().zip(members));
        for (name, label) in SITES {
            fleet.hub.kubectl().ok(&["label", "cluster", name, label]);
        }
        fleet
    }

    /// A hub that these members joined under these names, each Ready; none of their agents knows another way to it than its link.
    pub fn joined(
        folder: Folder,
        hub: Hub,
        members: impl IntoIterator<Item = (&'static str, Member)>,
    ) -> Fleet {
        let register = RegisterCommand::make(&hub, &[]);
        let members = members.into_iter();
        let mut sites: Vec<Site> =
            members.map(|(name, member)| join(name, member, &hub, &register, &folder)).collect();
        for site in &mut sites {
            site.await_ready(&hub);
            // From now on it needs no token, and must not find a way around its link.
            site.agent.stop();
            site.keep_to_the_link();
            let options = site.agent.options();
            (options.token, options.ca_hash, options.cluster_name) = (None, None, None);
            site.agent.start_again();
        }
        Fleet { hub, sites, register, folder }
    }

    /// Everything runs again, as after the start.
    pub fn mend(&mut self) {
        if self.hub.process().is_none_or(|process| process.alive().is_err()) {
            self.hub.start_again();
        }
        for site in &mut self.sites {
            site.link.heal();
            site.member.start_again();
            // One that waits before it dials again dials at once when it is started.
            let ready = site.cluster(&self.hub).is_ok_and(|cluster| condition(&cluster, "Ready") == "True");
            if !ready || site.agent.process().is_none_or(|process| process.alive().is_err()) {
                site.agent.start_again();
            }
        }
        for site in &self.sites {
            site.await_ready(&self.hub);
        }
    }

    /// kubectl on the hub, in `namespace`, which is made.
    pub fn namespace(&self, namespace: &str) -> Kubectl {
        let kubectl = self.hub.kubectl();
        kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"));
        kubectl.in_namespace(namespace)
    }

    /// The site of this name.
    pub fn site(&self, name: &str) -> &Site {
        self.sites.iter().find(|site| site.name == name).unwrap()
    }

    /// The site of this name, to break it.
    pub fn site_mut(&mut self, name: &str) -> &mut Site {
        self.sites.iter_mut().find(|site| site.name == name).unwrap()
    }

    /// Takes a namespace away, on the hub and so on all members.
    pub fn remove_namespace(&self, namespace: &str) {
        self.hub.kubectl().ok(&["delete", "namespace", namespace, "--wait=false"]);
        for site in &self.sites {
            site.await_gone(&format!("/api/v1/namespaces/{namespace}"));
        }
        let path = format!("/api/v1/namespaces/{namespace}");
        await_gone(self.hub.api(), "the hub", &path);
    }
}

/// Starts an agent that knows nothing but the printed command.
fn join(name: &'static str, member: Member, hub: &Hub, register: &RegisterCommand, folder: &Folder) -> Site {
    let link = Link::to(hub.address());
    let (kubeconfig, cluster_name) = match name {
        // Without --cluster-name, under what the kubeconfig calls it.
        "kind-east" => (renamed(&member.kubeconfig(), "Kind_East", folder.path()), None),
        _ => (member.kubeconfig(), Some(name.to_owned())),
    };
    let agent = Agent::start(AgentOptions {
        hub: link.address().to_string(),
        token: Some(register.token.clone()),
        ca_hash: Some(register.ca_hash.clone()),
        cluster_name,
        kubeconfig: Some(kubeconfig),
        ..AgentOptions::default()
    });
    Site { name, member, agent, link }
}

/// A copy of a kubeconfig that calls the cluster `name`.
pub fn renamed(kubeconfig: &Path, name: &str, folder: &Path) -> PathBuf {
    let mut config = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    config.clusters[0].name = name.to_owned();
    config.contexts[0].context.as_mut().unwrap().cluster = name.to_owned();
    let copy = folder.join(format!("{name}.kubeconfig"));
    std::fs::write(&copy, serde_json::to_string(&config).unwrap()).unwrap();
    copy
}

/// A kubeconfig for the member of a ServiceAccount `name` that may do nothing there.
pub fn powerless(fleet: &Fleet, site: &str, name: &str) -> PathBuf {
    let member = &fleet.site(site).member;
    let kubectl = member.kubectl();
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: default}}\n"
    ));
    let token = kubectl.in_namespace("default").ok(&["create", "token", name]);
    let mut config = kube::config::Kubeconfig::read_from(member.kubeconfig()).unwrap();
    config.auth_infos[0].auth_info =
        serde_json::from_value(json!({"token": token.trim()})).expect("a token is a way to authenticate");
    let copy = fleet.folder.path().join(format!("{name}.kubeconfig"));
    std::fs::write(&copy, serde_json::to_string(&config).unwrap()).unwrap();
    copy
}

impl Site {
    /// Plain requests to the member.
    pub fn api(&self) -> &Api {
        self.member.api()
    }

    /// The Cluster, as the hub has it.
    pub fn cluster(&self, hub: &Hub) -> Result<Value, String> {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", self.name);
        get(hub.api(), &path)
    }

    /// Waits until the hub shows the cluster Ready and untainted.
    #[track_caller]
    pub fn await_ready(&self, hub: &Hub) {
        eventually(&format!("{} Ready; {}", self.name, self.agent.folder().display()), TIMEOUT, || {
            let cluster = self.cluster(hub)?;
            let taints = cluster.pointer("/spec/taints").and_then(Value::as_array).map_or(0, Vec::len);
            so(condition(&cluster, "Ready") == "True" && taints == 0, || cluster.to_string())
        });
    }

    /// Waits until what is at `path` of the member is as `right` wants it; `right` says what is wrong.
    #[track_caller]
    pub fn await_object(&self, path: &str, right: impl FnMut(&Value) -> Result<(), String>) -> Value {
        await_object(self.api(), self.name, path, right)
    }

    /// Waits until nothing is at `path` of the member.
    #[track_caller]
    pub fn await_gone(&self, path: &str) {
        await_gone(self.api(), self.name, path);
    }

    /// Removes what the agent, which must not run, knows; its identity stays.
    pub fn forget_ledger(&self) {
        for entry in std::fs::read_dir(self.agent.state_dir()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("ledger.sqlite") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    /// Leaves the link as the one address of the hub that the agent knows.
    fn keep_to_the_link(&self) {
        let file = self.agent.state_dir().join("identity.json");
        let mut identity: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        identity["endpoints"] = json!([self.link.address().to_string()]);
        std::fs::write(&file, identity.to_string()).unwrap();
    }
}

/// A CustomResourceDefinition of a namespaced kind with one version, v1: `fields` are those of its spec, as YAML; its status may say anything.
pub fn custom_kind(group: &str, (plural, kind): (&str, &str), fields: &str) -> String {
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {plural}, kind: {kind}}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, properties: {{{fields}}}}}
          status: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"
    )
}

/// What is at `path`, or why it is not.
pub fn get(api: &Api, path: &str) -> Result<Value, String> {
    api.get(path).map_err(|error| format!("{error:#}"))?.ok_or_else(|| format!("nothing at {path}"))
}

/// Waits until what is at `path` is as `right` wants it.
#[track_caller]
pub fn await_object(
    api: &Api,
    place: &str,
    path: &str,
    mut right: impl FnMut(&Value) -> Result<(), String>,
) -> Value {
    eventually(&format!("{path} on {place}"), TIMEOUT, || {
        let object = get(api, path)?;
        right(&object).map(|()| object)
    })
}

/// Waits until nothing is at `path`.
#[track_caller]
pub fn await_gone(api: &Api, place: &str, path: &str) {
    eventually(&format!("{path} gone from {place}"), TIMEOUT, || {
        let found = api.get(path).map_err(|error| format!("{error:#}"))?;
        so(found.is_none(), || found.unwrap_or_default().to_string())
    });
}

/// `Ok` where the value at `pointer` is `wanted`.
pub fn has(object: &Value, pointer: &str, wanted: &Value) -> Result<(), String> {
    so(object.pointer(pointer) == Some(wanted), || format!("{pointer} is not {wanted}: {object}"))
}

/// `Ok` where a condition has this status, and its message holds `text`.
pub fn has_condition(object: &Value, kind: &str, status: &str, text: &str) -> Result<(), String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| text_at(condition, "/type") == kind);
    let right = found.is_some_and(|found| {
        text_at(found, "/status") == status && text_at(found, "/message").contains(text)
    });
    so(right, || format!("{kind} is not {status} with {text:?}: {found:?}"))
}

/// The line that `karmadactl token create --print-register-command` prints, taken apart.
#[derive(Clone, Debug)]
pub struct RegisterCommand {
    /// HOST:PORT.
    pub hub: String,
    /// The join token.
    pub token: String,
    /// The pin.
    pub ca_hash: String,
}

impl RegisterCommand {
    /// Has one made on `hub`.
    pub fn make(hub: &Hub, flags: &[&str]) -> RegisterCommand {
        let args = [&["token", "create", "--print-register-command"], flags].concat();
        let line = karmadactl(&hub.kubeconfig(), &args).ok();
        let (echoed, command) = line.trim().split_once(" | ").expect("the token is piped");
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[..2], ["karmadactl", "register"], "{line}");
        let flags: BTreeMap<&str, &str> = words[3..].chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(flags["--token-file"], "-", "{line}");
        RegisterCommand {
            hub: words[2].to_owned(),
            token: echoed.strip_prefix("echo ").expect("it is echoed").to_owned(),
            ca_hash: flags["--discovery-token-ca-cert-hash"].to_owned(),
        }
    }
}

/// Runs karmadactl with a kubeconfig.
pub fn karmadactl(kubeconfig: &Path, args: &[&str]) -> Output {
    let output = Command::new(program("karmadactl"))
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("karmadactl can be started");
    Output {
        command: format!("karmadactl {}", args.join(" ")),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        status: output.status,
    }
}

/// As long as the hub waits for a silent agent, and some.
pub const SILENCE: Duration = Duration::from_secs(75);

/// Waits until a binding is placed in these clusters and no others.
#[track_caller]
pub fn await_targets(fleet: &Fleet, binding: &str, wanted: &[&str]) {
    eventually(&format!("placed in {wanted:?}"), TIMEOUT, || {
        let binding = get(fleet.hub.api(), binding)?;
        let clusters =
            binding.pointer("/spec/clusters").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut names: Vec<&str> = clusters.iter().map(|target| text_at(target, "/name")).collect();
        names.sort_unstable();
        so(names == wanted, || format!("{names:?}"))
    });
}

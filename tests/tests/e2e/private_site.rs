//! A hub, a member and an agent of one test's own: what is put back, killed or made to hang there is of no other test's business.

use std::time::Duration;

use karmada_api::strings::finalizers;
use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::{Api, text_at};
use tests::faulty_link::Link;
use tests::folder::Folder;
use tests::hub::{Hub, HubOptions};
use tests::kube_binaries::programs_or_skip;
use tests::member::{Member, MemberOptions};
use tests::wait::{TIMEOUT, eventually, so, throughout};

use crate::fleet::{RegisterCommand, await_gone, await_object, get, has, has_condition, karmadactl};

pub const CLUSTER: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/lone";
pub const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-lone/works";
/// Long enough for an agent to connect, to be listed everything and to act on it.
pub const A_WHILE: Duration = Duration::from_secs(8);

/// One hub and one site.
pub struct Line {
    /// Where Works are made.
    pub hub: Hub,
    /// An API server alone.
    pub member: Member,
    /// The agent beside it.
    pub agent: Agent,
    /// For files of the test.
    pub folder: Folder,
    /// What the agent joined with.
    pub token: String,
}

/// A Work's body: one ConfigMap of the same name.
pub fn spec(name: &str, mode: &str) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"mode": mode}});
    json!({"workload": {"manifests": [manifest]}})
}

pub fn config(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

pub fn work(name: &str) -> String {
    format!("{WORKS}/{name}")
}

impl Line {
    pub fn start() -> Option<Line> {
        Line::under(HubOptions::default())
    }

    /// The same under a hub of this sort.
    pub fn under(options: HubOptions) -> Option<Line> {
        programs_or_skip()?;
        let (hub, member) = (Hub::start(options), Member::start(MemberOptions::bare("lone")));
        let (register, folder) = (RegisterCommand::make(&hub, &[]), Folder::new("line"));
        let token_file = folder.join("join-token");
        std::fs::write(&token_file, &register.token).unwrap();
        let agent = Agent::start(AgentOptions {
            hub: register.hub,
            ca_hash: Some(register.ca_hash),
            cluster_name: Some("lone".to_owned()),
            kubeconfig: Some(member.kubeconfig()),
            args: vec!["--token-file".to_owned(), token_file.display().to_string()],
            ..AgentOptions::default()
        });
        let line = Line { hub, member, agent, folder, token: register.token };
        await_object(line.hub.api(), "the hub", CLUSTER, |cluster| {
            has_condition(cluster, "Ready", "True", "")
        });
        Some(line)
    }

    /// Leaves `link` as the one way to the hub that the agent knows.
    pub fn lead_over(&mut self, link: &Link) {
        self.agent.stop();
        let file = self.agent.state_dir().join("identity.json");
        let mut identity: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        identity["endpoints"] = json!([link.address().to_string()]);
        std::fs::write(&file, identity.to_string()).unwrap();
        self.agent.options().hub = link.address().to_string();
        self.agent.start_again();
    }

    /// Makes a Work as the binding controller does: it stays until the site has let go of what it placed.
    pub fn put(&self, name: &str, mode: &str) {
        let metadata = json!({"name": name, "finalizers": [finalizers::EXECUTION]});
        let object = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": metadata, "spec": spec(name, mode)});
        self.hub.api().create(WORKS, &object).unwrap();
    }

    pub fn change(&self, name: &str, mode: &str) {
        self.hub.api().merge(&work(name), &json!({"spec": spec(name, mode)})).unwrap();
    }

    pub fn delete(&self, name: &str) {
        self.hub.api().delete(&work(name)).unwrap();
    }

    /// Waits until the member has the ConfigMap in this mode.
    #[track_caller]
    pub fn await_mode(&self, name: &str, mode: &str) {
        await_object(self.member.api(), "the member", &config(name), |object| {
            has(object, "/data/mode", &json!(mode))
        });
    }

    /// Waits until neither the member nor the hub has anything of the name.
    #[track_caller]
    pub fn await_no(&self, name: &str) {
        await_gone(self.member.api(), "the member", &config(name));
        await_gone(self.hub.api(), "the hub", &work(name));
    }

    /// Waits until the member has what the hub's Works say, each applied, and nothing beside it.
    #[track_caller]
    pub fn await_agreement(&self, modes: &[(&str, &str)]) {
        eventually("hub and member to say the same", TIMEOUT, || self.agree(modes));
        throughout("agreement", A_WHILE, || self.agree(modes));
    }

    /// Whether the member has what the hub's Works say, each applied, and both have these and no others.
    pub fn agree(&self, modes: &[(&str, &str)]) -> Result<(), String> {
        let works = self.hub.api().list(WORKS).map_err(|error| format!("{error:#}"))?;
        for work in &works {
            has_condition(work, "Applied", "True", "")?;
        }
        let manifest = |work: &Value| work["spec"]["workload"]["manifests"][0].clone();
        let on_hub = modes_of(works.iter().map(manifest));
        let on_member = objects(self.member.api())?;
        let mut wanted: Vec<String> = modes.iter().map(|(name, mode)| format!("{name}: {mode}")).collect();
        wanted.sort_unstable();
        so(on_hub == wanted && on_member == wanted, || format!("hub {on_hub:?}, member {on_member:?}"))
    }

    pub fn uid(&self, name: &str) -> String {
        text_at(&get(self.member.api(), &config(name)).unwrap(), "/metadata/uid").to_owned()
    }

    pub fn karmadactl(&self, args: &[&str]) -> String {
        karmadactl(&self.hub.kubeconfig(), args).ok()
    }

    /// Waits until the hub tells of what the site enforces and it knows nothing of.
    #[track_caller]
    pub fn await_orphan(&self, name: &str) {
        eventually("the orphan to be told", TIMEOUT, || {
            let orphans = self.karmadactl(&["orphans", "lone"]);
            so(orphans.contains(name), || orphans)
        });
    }

    /// The batch that the newest event `DeletesHeld` names.
    pub fn held_batch(&self) -> Result<String, String> {
        let events = self.hub.api().list("/api/v1/events").map_err(|error| format!("{error:#}"))?;
        let held = events.iter().rfind(|event| event["reason"] == "DeletesHeld");
        let message = held.map_or("", |event| text_at(event, "/message"));
        let batch = message.rsplit_once("--batch ").map(|(_, batch)| batch.trim().to_owned());
        batch.ok_or_else(|| format!("no deletes are held: {events:?}"))
    }
}

/// The ConfigMaps of a member that a hub placed there.
fn objects(member: &Api) -> Result<Vec<String>, String> {
    let path = "/api/v1/namespaces/default/configmaps";
    let all = member.list(path).map_err(|error| format!("{error:#}"))?;
    Ok(modes_of(all.into_iter().filter(|object| object["metadata"]["name"] != "kube-root-ca.crt")))
}

fn modes_of(objects: impl Iterator<Item = Value>) -> Vec<String> {
    let text =
        |object: Value| format!("{}: {}", text_at(&object, "/metadata/name"), text_at(&object, "/data/mode"));
    let mut modes: Vec<String> = objects.map(text).collect();
    modes.sort_unstable();
    modes
}

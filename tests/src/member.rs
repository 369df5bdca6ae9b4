//! A member cluster of real parts: etcd, kube-apiserver, controllers, scheduler, and kwok's nodes, on loopback.
//!
//! In: [`MemberOptions`]. Out: a cluster whose Pods would run, with its kubeconfig and clients. Starting blocks for 90 s at most; where the
//! member does not come up, it panics and names the logs.
//!
//! It is up in about 5 s, keeps its data, keys and ports over a restart, and goes with its value. Small on
//! purpose: etcd without fsync, only the controllers that a test can see, one worker each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, condition, text_at};
use crate::folder::Folder;
use crate::kube_binaries::{Programs, programs};
use crate::kubectl::Kubectl;
use crate::member_certs;
use crate::ports;
use crate::process::{Process, Program};
use crate::wait::{eventually, so};

/// How long a member may take to come up on a busy machine.
const START: Duration = Duration::from_secs(90);

/// The controllers that run: what workloads, namespaces, accounts and storage need, nothing that needs a cloud
/// or a kubelet. Without the node life cycle, as kwok's nodes are never lost by themselves.
const CONTROLLERS: &str = "clusterrole-aggregation-controller,cronjob-controller,daemonset-controller,\
deployment-controller,disruption-controller,endpoints-controller,endpointslice-controller,\
garbage-collector-controller,job-controller,namespace-controller,persistentvolume-binder-controller,\
persistentvolumeclaim-protection-controller,pod-garbage-collector-controller,replicaset-controller,\
replicationcontroller-controller,resourcequota-controller,root-ca-certificate-publisher-controller,\
serviceaccount-controller,serviceaccount-token-controller,statefulset-controller,ttl-after-finished-controller";

/// The controllers of kube-controller-manager that a hub has its own of: what the API itself is incomplete without.
pub const HUB_CONTROLLERS: &str = "bootstrap-signer-controller,certificatesigningrequest-cleaner-controller,\
certificatesigningrequest-signing-controller,clusterrole-aggregation-controller,garbage-collector-controller,\
namespace-controller,resourcequota-controller,root-ca-certificate-publisher-controller,serviceaccount-controller,\
serviceaccount-token-controller,token-cleaner-controller,ttl-after-finished-controller,\
validatingadmissionpolicy-status-controller";

/// What a member is like.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// Its name, also in its kubeconfig.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Further flags of kube-apiserver; they come last, so they win.
    pub apiserver_args: Vec<String>,
    /// The controllers that run, as kube-controller-manager is told them; with none, it is a bare API server.
    pub controllers: &'static str,
    /// Whether the scheduler and kwok's nodes run.
    pub workloads: bool,
    /// Whether etcd and the API server are set as in production: writes are on disk before they are acknowledged, and Go's own
    /// default for its memory. For benches; tests need neither.
    pub production: bool,
}

impl MemberOptions {
    /// Two nodes of 8 CPUs and 32 GiB.
    pub fn new(name: &str) -> MemberOptions {
        let nodes = vec![Node::new(&format!("{name}-node-1")), Node::new(&format!("{name}-node-2"))];
        MemberOptions {
            name: name.to_owned(),
            nodes,
            apiserver_args: Vec::new(),
            controllers: CONTROLLERS,
            workloads: true,
            production: false,
        }
    }

    /// An API server alone.
    pub fn bare(name: &str) -> MemberOptions {
        MemberOptions { nodes: Vec::new(), controllers: "", workloads: false, ..MemberOptions::new(name) }
    }

    /// An API server with the controllers that a hub has, and no node.
    pub fn like_a_hub(name: &str) -> MemberOptions {
        MemberOptions { controllers: HUB_CONTROLLERS, ..MemberOptions::bare(name) }
    }
}

/// A node that kwok plays: Pods bound to it run at once.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Labels beside `kubernetes.io/hostname`.
    pub labels: Vec<(String, String)>,
    /// CPUs, as a quantity.
    pub cpu: String,
    /// Memory, as a quantity.
    pub memory: String,
    /// Pods at most.
    pub pods: u32,
}

impl Node {
    /// 8 CPUs, 32 GiB, 110 Pods.
    pub fn new(name: &str) -> Node {
        Node { name: name.to_owned(), labels: Vec::new(), cpu: "8".into(), memory: "32Gi".into(), pods: 110 }
    }

    fn object(&self) -> Value {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        });
        for (name, value) in &self.labels {
            labels[name] = json!(value);
        }
        let resources = json!({"cpu": self.cpu, "memory": self.memory, "pods": self.pods.to_string()});
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": resources, "allocatable": resources},
        })
    }
}

/// A running member.
pub struct Member {
    options: MemberOptions,
    programs: &'static Programs,
    api: Api,
    port: u16,
    etcd_ports: (u16, u16),
    // In the order in which they are to end.
    kwok: Option<Process>,
    scheduler: Option<Process>,
    controllers: Option<Process>,
    apiserver: Option<Process>,
    etcd: Option<Process>,
    folder: Folder,
}

impl Member {
    /// Starts one, and waits until its Pods would run. Panics, with the logs' names, where it does not come up.
    #[track_caller]
    pub fn start(options: MemberOptions) -> Member {
        let programs = programs();
        let folder = Folder::new(&options.name);
        let port = ports::reserve();
        member_certs::write(folder.path(), &options.name, port).expect("keys can be made and written");
        let api = Api::from_kubeconfig(&folder.join("admin.kubeconfig")).expect("the kubeconfig is good");
        let etcd_ports = (ports::reserve(), ports::reserve());
        let mut member = Member {
            options,
            programs,
            api,
            port,
            etcd_ports,
            kwok: None,
            scheduler: None,
            controllers: None,
            apiserver: None,
            etcd: None,
            folder,
        };
        member.start_again();
        let nodes = member.options.nodes.clone();
        member.add_nodes(&nodes);
        member
    }

    /// Starts several side by side.
    #[track_caller]
    pub fn start_all(options: impl IntoIterator<Item = MemberOptions>) -> Vec<Member> {
        // Before the threads, so that only one builds and all see its failure.
        programs();
        std::thread::scope(|scope| {
            let starts: Vec<_> = options.into_iter().map(|one| scope.spawn(|| Member::start(one))).collect();
            starts.into_iter().map(|start| start.join().expect("the member comes up")).collect()
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// The administrator's kubeconfig; its cluster bears the member's name.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// kubectl as its administrator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self.kubeconfig())
    }

    /// Plain requests as its administrator.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The API server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its files: logs (`kube-apiserver.log`…), keys, etcd's data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Resident memory of its API server and its etcd, in KiB.
    pub fn resident_kib(&self) -> u64 {
        [&self.apiserver, &self.etcd].into_iter().flatten().map(Process::resident_kib).sum()
    }

    /// Processor time of its API server and its etcd so far.
    pub fn processor_time(&self) -> Duration {
        [&self.apiserver, &self.etcd].into_iter().flatten().map(Process::processor_time).sum()
    }

    /// Ends everything; data, keys and ports stay for [`Member::start_again`].
    #[track_caller]
    pub fn stop(&mut self) {
        // The order matters only for the time it takes: clients first, so that none waits for an answer.
        for mut process in
            [self.kwok.take(), self.scheduler.take(), self.controllers.take()].into_iter().flatten()
        {
            process.kill();
        }
        for mut process in [self.apiserver.take(), self.etcd.take()].into_iter().flatten() {
            process.stop();
        }
    }

    /// Ends everything at once, as a power cut does (etcd keeps what it wrote, as the machine stays).
    pub fn kill(&mut self) {
        let all =
            [&mut self.kwok, &mut self.scheduler, &mut self.controllers, &mut self.apiserver, &mut self.etcd];
        all.into_iter().for_each(|process| *process = None);
    }

    /// Starts what does not run, on the same data and ports, and waits until it is up.
    #[track_caller]
    pub fn start_again(&mut self) {
        if self.etcd.is_none() {
            self.etcd = Some(self.etcd_program().start());
        }
        self.start_apiserver();
        let wanted = self.options.controllers;
        if self.options.workloads {
            self.scheduler.get_or_insert_with(|| scheduler_program(&self.folder, self.programs).start());
            self.kwok.get_or_insert_with(|| kwok_program(&self.folder, self.programs).start());
        }
        if !wanted.is_empty() {
            self.controllers
                .get_or_insert_with(|| controllers_program(&self.folder, self.programs, wanted).start());
            self.wait_for("the default service account", |api| {
                let account = api.get("/api/v1/namespaces/default/serviceaccounts/default");
                account.map_err(|error| format!("{error:#}"))?.map(drop).ok_or_else(|| "none".to_owned())
            });
        }
    }

    /// Further flags of kube-apiserver at its next start, instead of those before.
    pub fn set_apiserver_args(&mut self, args: Vec<String>) {
        self.options.apiserver_args = args;
    }

    /// Ends the API server at once and leaves the rest running; [`Member::start_apiserver`] brings it back.
    pub fn kill_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Starts the API server if it does not run, and waits until it is ready.
    #[track_caller]
    pub fn start_apiserver(&mut self) {
        if self.apiserver.is_none() {
            self.apiserver = Some(self.apiserver_program().start());
        }
        self.wait_for("the API server", Api::ready);
    }

    /// Adds nodes and waits until they are Ready.
    #[track_caller]
    pub fn add_nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.api.create("/api/v1/nodes", &node.object()).expect("the node can be created");
        }
        for node in nodes {
            self.wait_for(&format!("node {} to be Ready", node.name), |api| {
                let node =
                    api.get(&format!("/api/v1/nodes/{}", node.name)).map_err(|error| format!("{error:#}"))?;
                let ready = node.as_ref().map_or("", |node| condition(node, "Ready"));
                so(ready == "True", || format!("Ready is {ready:?}"))
            });
        }
    }

    /// The URL of its etcd.
    pub fn etcd(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_ports.0)
    }

    /// The names of the Pods in a namespace that are Running.
    ///
    /// # Errors
    /// The member does not answer with a list of Pods.
    pub fn running_pods(&self, namespace: &str) -> anyhow::Result<Vec<String>> {
        let pods = self.api.list(&format!("/api/v1/namespaces/{namespace}/pods"))?;
        let running = pods.iter().filter(|pod| text_at(pod, "/status/phase") == "Running");
        Ok(running.map(|pod| text_at(pod, "/metadata/name").to_owned()).collect())
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, mut look: impl FnMut(&Api) -> Result<(), String>) {
        let what = format!("{what} of {} (logs in {})", self.options.name, self.folder.path().display());
        let api = self.api.clone();
        let parts =
            [&mut self.etcd, &mut self.apiserver, &mut self.controllers, &mut self.scheduler, &mut self.kwok];
        let mut parts: Vec<&mut Process> = parts.into_iter().flatten().collect();
        eventually(&what, START, || {
            // A part that ended will not come: no need to wait for the timeout to say so.
            if let Some(error) = parts.iter_mut().find_map(|part| part.alive().err()) {
                panic!("{what}: {error}");
            }
            look(&api)
        });
    }

    fn etcd_program(&self) -> Program {
        let (client, peer) = self.etcd_ports;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        Program::new("etcd", &self.programs.etcd, self.folder.path()).args([
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            format!("--unsafe-no-fsync={}", !self.options.production),
            "--log-level=warn".to_owned(),
        ])
    }

    fn apiserver_program(&self) -> Program {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let program = Program::new("kube-apiserver", &self.programs.kube_apiserver, self.folder.path());
        // Half of Go's default: a member's memory matters more than its speed.
        program
            .env("GOGC", if self.options.production { "100" } else { "50" })
            .args([
                format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_ports.0),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.port),
                format!("--tls-cert-file={}", file("server.crt")),
                format!("--tls-private-key-file={}", file("server.key")),
                format!("--client-ca-file={}", file("ca.crt")),
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
                format!("--service-account-key-file={}", file("sa.pub")),
                format!("--service-account-signing-key-file={}", file("sa.key")),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
                // Its taint would wait for the node life cycle, which does not run.
                "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
                // 127.0.0.1 may not be an endpoint of the Service kubernetes.
                "--endpoint-reconciler-type=none".to_owned(),
                "--allow-privileged=true".to_owned(),
                "--profiling=false".to_owned(),
            ])
            .args(self.options.apiserver_args.iter().cloned())
    }
}

fn controllers_program(folder: &Folder, programs: &Programs, controllers: &str) -> Program {
    let file = |name: &str| folder.join(name).display().to_string();
    let workers =
        ["deployment", "replicaset", "job", "statefulset", "endpoint", "gc", "namespace", "service-endpoint"];
    Program::new("kube-controller-manager", &programs.kube_controller_manager, folder.path())
        .args([
            format!("--kubeconfig={}", file("admin.kubeconfig")),
            format!("--service-account-private-key-file={}", file("sa.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            format!("--cluster-signing-cert-file={}", file("ca.crt")),
            format!("--cluster-signing-key-file={}", file("ca.key")),
            format!("--controllers={controllers}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
            "--profiling=false".to_owned(),
        ])
        .args(workers.map(|kind| format!("--concurrent-{kind}-syncs=2")))
}

fn scheduler_program(folder: &Folder, programs: &Programs) -> Program {
    Program::new("kube-scheduler", &programs.kube_scheduler, folder.path()).args([
        format!("--kubeconfig={}", folder.join("admin.kubeconfig").display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
        "--profiling=false".to_owned(),
    ])
}

fn kwok_program(folder: &Folder, programs: &Programs) -> Program {
    // HOME: no configuration of the person who runs the tests.
    Program::new("kwok", &programs.kwok, folder.path()).env("HOME", folder.path().display().to_string()).args(
        [
            format!("--kubeconfig={}", folder.join("admin.kubeconfig").display()),
            "--manage-all-nodes=true".to_owned(),
        ],
    )
}

//! The built agent as a plain process: `karmada-agent`, beside a member and not in it.
//!
//! In: where the hub is, a token and the member's kubeconfig ([`AgentOptions`]). Out: a running process and its state folder. Nothing waits
//! for it to join or to be ready; whoever needs that asks the hub.

use std::path::{Path, PathBuf};

use crate::built::program;
use crate::folder::Folder;
use crate::process::{Process, Program};

/// What an agent is told.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// HOST:PORT of the hub, or of the link to it.
    pub hub: String,
    /// The join token; an agent that has joined needs none.
    pub token: Option<String>,
    /// `sha256:…` of the hub's CA.
    pub ca_hash: Option<String>,
    /// The name to join under.
    pub cluster_name: Option<String>,
    /// The member's kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Variables beside ours.
    pub env: Vec<(String, String)>,
}

/// An agent with its state; restarts keep the state.
pub struct Agent {
    options: AgentOptions,
    process: Option<Process>,
    folder: Folder,
}

impl Agent {
    /// Starts one with an empty state. Whether it joins is for the test to see.
    pub fn start(options: AgentOptions) -> Agent {
        let name = format!("agent-{}", options.cluster_name.as_deref().unwrap_or("unnamed"));
        let mut agent = Agent { options, process: None, folder: Folder::new(&name) };
        agent.start_again();
        agent
    }

    /// Its files: log and state.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder given as `--state-dir`.
    pub fn state_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// What it is told at the next start.
    pub fn options(&mut self) -> &mut AgentOptions {
        &mut self.options
    }

    /// The process, while it was not stopped.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// SIGTERM; waits until it has ended, and checks that it ended well.
    #[track_caller]
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let status = process.stop();
            assert!(status.success(), "the agent ended with {status}; {}", process.tail(15));
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it (again) on the same state; one that runs is killed first.
    pub fn start_again(&mut self) {
        self.kill();
        let mut agent = Program::new("karmada-agent", program("karmada-agent"), self.folder.path());
        agent.env.extend(self.options.env.iter().cloned());
        self.process = Some(agent.args(self.arguments()).start());
    }

    fn arguments(&self) -> Vec<String> {
        let options = &self.options;
        let kubeconfig = options.kubeconfig.as_ref().map(|path| path.display().to_string());
        let pairs = [
            ("--hub", Some(options.hub.clone())),
            ("--state-dir", Some(self.state_dir().display().to_string())),
            ("--token", options.token.clone()),
            ("--discovery-token-ca-cert-hash", options.ca_hash.clone()),
            ("--cluster-name", options.cluster_name.clone()),
            ("--kubeconfig", kubeconfig),
        ];
        let given = pairs.into_iter().filter_map(|(flag, value)| value.map(|value| [flag.to_owned(), value]));
        given.flatten().chain(options.args.iter().cloned()).collect()
    }
}

//! The built hub, as a process: `karmada-hub serve`.
//!
//! In: arguments and variables ([`HubOptions`]). Out: a hub that says it is ready, its address and an administrator's clients. Starting
//! blocks for 30 s at most, then panics; so does a hub that ends meanwhile.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::api::Api;
use crate::built::program;
use crate::folder::Folder;
use crate::kubectl::Kubectl;
use crate::process::{Process, Program};
use crate::wait::eventually;

/// How long a hub may take to come up on a busy machine.
const START: Duration = Duration::from_secs(30);

/// How a hub is started.
#[derive(Clone, Debug, Default)]
pub struct HubOptions {
    /// Further arguments of `serve`.
    pub args: Vec<String>,
    /// Variables beside ours.
    pub env: Vec<(String, String)>,
    /// A disk of its own for its data, of this size (as mount's `size=`), which goes with the process; empty: none.
    pub own_disk: String,
}

/// A hub with its data; restarts keep data and address.
pub struct Hub {
    options: HubOptions,
    address: SocketAddr,
    api: Api,
    process: Option<Process>,
    folder: Folder,
}

impl Hub {
    /// Starts one on a port that the kernel chooses, and waits until it is ready.
    #[track_caller]
    pub fn start(options: HubOptions) -> Hub {
        let folder = Folder::new("hub");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = serve(&options, &folder, any);
        let kubeconfig = seen(&options, &process, data_dir(&folder)).join("admin.kubeconfig");
        let (address, api) = eventually(&format!("the hub of {}", folder.path().display()), START, || {
            running(&mut process);
            let address = server_of(&kubeconfig)?;
            let api = Api::from_kubeconfig(&kubeconfig).map_err(|error| format!("{error:#}"))?;
            api.ready()?;
            Ok((address, api))
        });
        Hub { options, address, api, process: Some(process), folder }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder given as `--data-dir`.
    pub fn data_dir(&self) -> PathBuf {
        let folder = data_dir(&self.folder);
        self.process.as_ref().map_or(folder.clone(), |process| seen(&self.options, process, folder))
    }

    /// How it is started the next time.
    pub fn options(&mut self) -> &mut HubOptions {
        &mut self.options
    }

    /// The administrator's kubeconfig, as the hub wrote it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// kubectl as its administrator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self.kubeconfig())
    }

    /// Plain requests as its administrator.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The process, while it runs.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// SIGTERM; waits until it has drained and ended, and checks that it ended well.
    #[track_caller]
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let status = process.stop();
            assert!(status.success(), "the hub ended with {status}; {}", process.tail(15));
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same data and address, and waits until it is ready.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.kill();
        let process = self.process.insert(serve(&self.options, &self.folder, self.address));
        eventually(&format!("the hub of {}", self.folder.path().display()), START, || {
            running(process);
            self.api.ready()
        });
    }
}

fn data_dir(folder: &Folder) -> PathBuf {
    folder.join("data")
}

/// A path of a process with a disk of its own, as others see it.
fn seen(options: &HubOptions, process: &Process, path: PathBuf) -> PathBuf {
    if options.own_disk.is_empty() {
        return path;
    }
    // An absolute link on the way would be followed from this side's root.
    let real = path.parent().and_then(|folder| Some(folder.canonicalize().ok()?.join(path.file_name()?)));
    let path = real.unwrap_or(path);
    PathBuf::from(format!("/proc/{}/root{}", process.id(), path.display()))
}

fn serve(options: &HubOptions, folder: &Folder, listen: SocketAddr) -> Process {
    let data = data_dir(folder).display().to_string();
    let mut hub = Program::new("karmada-hub", program("karmada-hub"), folder.path());
    if !options.own_disk.is_empty() {
        let mount = "mkdir -p \"$1\" && mount -t tmpfs -o \"size=$2\" none \"$1\" && shift 2 && exec \"$@\"";
        let size = &options.own_disk;
        let hub_itself = hub.path.display().to_string();
        hub.path = PathBuf::from("unshare");
        hub = hub.args(["-rm", "sh", "-c", mount, "sh", data.as_str(), size.as_str(), hub_itself.as_str()]);
    }
    hub.env.extend(options.env.iter().cloned());
    hub.args(["serve", "--data-dir", &data, "--listen", &listen.to_string()])
        .args(options.args.iter().cloned())
        .start()
}

/// A hub that ended will not become ready: no need to wait for the timeout to say so.
#[track_caller]
fn running(process: &mut Process) {
    if let Err(error) = process.alive() {
        panic!("{error}");
    }
}

/// The address in a kubeconfig's first cluster.
fn server_of(kubeconfig: &Path) -> Result<SocketAddr, String> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let server = config.clusters.first().and_then(|named| named.cluster.as_ref()?.server.clone());
    let server = server.ok_or("the kubeconfig names no server")?;
    let address =
        server.trim_start_matches("https://").trim_end_matches('/').replace("localhost", "127.0.0.1");
    address.parse().map_err(|error| format!("{server}: {error}"))
}

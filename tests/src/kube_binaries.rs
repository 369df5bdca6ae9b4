//! The programs that a member cluster consists of: found, or built from `tests/kube` by its script.
//!
//! In: nothing but `KUBEBUILDER_ASSETS`, which may name programs to use instead. Out: the paths of etcd, kube-apiserver, the controllers,
//! the scheduler, kwok and kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::folder::{target_dir, workspace_root};
use crate::must_not_skip;
use crate::process::find_in_path;

/// A folder of programs that are used instead of those that are built, as envtest has it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd, of the version that this Kubernetes requires.
    pub etcd: PathBuf,
    /// kube-apiserver, of the version in `tests/kube/go.mod`.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager, of the same.
    pub kube_controller_manager: PathBuf,
    /// kube-scheduler, of the same.
    pub kube_scheduler: PathBuf,
    /// kwok, which plays the nodes.
    pub kwok: PathBuf,
    /// The kubectl among the given programs, or else the installed one, or else the built one.
    pub kubectl: PathBuf,
}

/// The programs; builds what is missing on first use, which takes minutes. Panics with what to install where
/// that cannot be done.
pub fn programs() -> &'static Programs {
    match found() {
        Ok(programs) => programs,
        Err(why) => panic!("{why}"),
    }
}

/// The programs, or a line `skipped: …` and `None` where they cannot be had. In CI that is a failure.
pub fn programs_or_skip() -> Option<&'static Programs> {
    match found() {
        Ok(programs) => Some(programs),
        Err(why) if must_not_skip() => panic!("{why}"),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Builds what is missing into `<target>/kube/bin`. Several processes at once wait for each other.
///
/// # Errors
/// The script cannot be run, or fails; what it printed tells why.
pub fn build(bin: &Path) -> Result<(), String> {
    let script = workspace_root().join("tests/kube/build");
    let status = Command::new(&script).arg(bin).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} failed ({status}): see its output above", script.display())),
        Err(error) => Err(format!("cannot run {}: {error}", script.display())),
    }
}

/// Where [`build`] puts what this program uses.
pub fn bin_dir() -> PathBuf {
    target_dir().join("kube").join("bin")
}

/// The version that members are of, as their kube-apiserver says it: `v1.36.3`.
#[track_caller]
pub fn member_version() -> String {
    let output = Command::new(&programs().kube_apiserver).arg("--version").output();
    let output = output.expect("kube-apiserver can be started");
    String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("Kubernetes ").to_owned()
}

/// The folder of the kubectl whose commands are compared: the given one, or else the built one. Never the installed one, which may
/// be of any version.
pub fn kubectl_folder() -> PathBuf {
    let folder = given("kubectl").and_then(|file| file.parent().map(Path::to_owned));
    folder.unwrap_or_else(bin_dir)
}

/// A program in the folder that `KUBEBUILDER_ASSETS` names: what lies there is used instead, and what does not is built.
fn given(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(ASSETS).map(PathBuf::from)?;
    Some(folder.join(name)).filter(|file| file.is_file())
}

fn found() -> Result<&'static Programs, String> {
    static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn find() -> Result<Programs, String> {
    let names = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];
    let bin = bin_dir();
    if names.iter().any(|name| given(name).is_none()) {
        build(&bin)?;
    }
    let program = |name: &str| given(name).unwrap_or_else(|| bin.join(name));
    Ok(Programs {
        etcd: program("etcd"),
        kube_apiserver: program("kube-apiserver"),
        kube_controller_manager: program("kube-controller-manager"),
        kube_scheduler: program("kube-scheduler"),
        kwok: program("kwok"),
        kubectl: given("kubectl").or_else(|| find_in_path("kubectl")).unwrap_or_else(|| bin.join("kubectl")),
    })
}

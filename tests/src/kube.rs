//! The programs that a member cluster consists of: found, or built from `tests/kube` by its script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::folder::{target_dir, workspace_root};
use crate::must_not_skip;
use crate::process::find_in_path;

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd 3.6.
    pub etcd: PathBuf,
    /// kube-apiserver, of the version in `tests/kube/go.mod`.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager, of the same.
    pub kube_controller_manager: PathBuf,
    /// kube-scheduler, of the same.
    pub kube_scheduler: PathBuf,
    /// kwok, which plays the nodes.
    pub kwok: PathBuf,
    /// The installed kubectl, or else the built one.
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

fn found() -> Result<&'static Programs, String> {
    static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn find() -> Result<Programs, String> {
    // As envtest has it: what lies there is used instead, and what does not is built.
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let given = |name: &str| assets.as_ref().map(|folder| folder.join(name)).filter(|file| file.is_file());
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
        kubectl: find_in_path("kubectl").unwrap_or_else(|| program("kubectl")),
    })
}

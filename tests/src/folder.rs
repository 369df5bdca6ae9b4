//! Folders for what a test leaves: data, kubeconfigs, logs.
//!
//! In: a name for people. Out: an empty folder on disk that no other test has. Also here: where cargo's target folder and the repository's
//! root are.
//!
//! They lie under `<target>/kube/run/PID-N-NAME`, and go with their value, unless the test is failing: then the logs
//! that its message names must stay. What dead processes left is removed by the next one.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of one part of the harness.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new, empty one; `name` is for people.
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let run = target_dir().join("kube").join("run");
        sweep(&run);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = run.join(format!("{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Folder { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for its logs: {}", self.path.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes once per process what dead processes left more than an hour ago: a failure's logs can be read.
fn sweep(run: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let dead = name.split('-').next().is_some_and(|pid| !Path::new("/proc").join(pid).exists());
            let age =
                entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
            if dead && age.is_some_and(|age| age.as_secs() > 3600) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    });
}

/// The folder that cargo builds into, by where this program lies: `<target>/<profile>[/deps]/…`.
pub fn target_dir() -> PathBuf {
    profile_dir().parent().expect("a profile's folder lies in the target folder").to_path_buf()
}

/// The folder of the profile that this program was built with.
pub fn profile_dir() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let folder = this.parent().expect("a program lies in a folder");
    if folder.ends_with("deps") || folder.ends_with("examples") {
        return folder.parent().expect("it lies in the profile's folder").into();
    }
    folder.into()
}

/// The root of this repository.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_path_buf()
}

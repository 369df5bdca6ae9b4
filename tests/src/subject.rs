//! The server under test: one hub for all tests of a suite that do not break it, or a real member to check the tests themselves.
//!
//! In: `SUBJECT=kube-apiserver` for the member; the hub else. Out: its administrator's ways in, and namespaces of a test's own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::json;

use crate::api::Api;
use crate::hub::{Hub, HubOptions};
use crate::kubectl::Kubectl;
use crate::member::{Member, MemberOptions};

/// A running server.
#[allow(clippy::large_enum_variant, reason = "there is one of them in a test run")]
pub enum Subject {
    /// Ours.
    Hub(Hub),
    /// kube-apiserver with its controllers.
    Member(Box<Member>),
}

/// The server that tests share; it ends with the last test that holds it.
#[track_caller]
pub fn shared() -> Arc<Subject> {
    static SHARED: Mutex<Weak<Subject>> = Mutex::new(Weak::new());
    // A test that failed to start it poisons nothing: the next one tries again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let started = Arc::new(if is_hub() {
        Subject::Hub(Hub::start(HubOptions::default()))
    } else {
        // As Karmada runs it: no account is asked of Pods, nothing protects volumes from deletion. The last flag wins, so the
        // harness' own is in it.
        let plugins =
            "--disable-admission-plugins=TaintNodesByCondition,StorageObjectInUseProtection,ServiceAccount";
        let options = MemberOptions { apiserver_args: vec![plugins.into()], ..MemberOptions::new("truth") };
        Subject::Member(Box::new(Member::start(options)))
    });
    *shared = Arc::downgrade(&started);
    started
}

/// Whether the tests run against a hub.
pub fn is_hub() -> bool {
    std::env::var("SUBJECT").map_or(true, |subject| subject != "kube-apiserver")
}

impl Subject {
    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Subject::Hub(hub) => hub.kubeconfig(),
            Subject::Member(member) => member.kubeconfig(),
        }
    }

    /// The folder with `ca.crt` and `ca.key`.
    pub fn pki(&self) -> PathBuf {
        match self {
            Subject::Hub(hub) => hub.data_dir().join("pki"),
            Subject::Member(member) => member.folder().to_owned(),
        }
    }

    /// kubectl as its administrator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self.kubeconfig())
    }

    /// Plain requests as its administrator.
    pub fn api(&self) -> &Api {
        match self {
            Subject::Hub(hub) => hub.api(),
            Subject::Member(member) => member.api(),
        }
    }

    /// A new namespace of the test's own.
    #[track_caller]
    pub fn namespace(&self, name: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api().create("/api/v1/namespaces", &object).unwrap();
        name
    }

    /// kubectl as its administrator, in a new namespace.
    #[track_caller]
    pub fn kubectl_in(&self, name: &str) -> Kubectl {
        self.kubectl().in_namespace(&self.namespace(name))
    }
}

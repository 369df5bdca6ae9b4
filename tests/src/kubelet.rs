//! Plays the kubelet for the Pods of one namespace: no Pod really runs on kwok's nodes, but the agent's must.
//!
//! In: a member, a namespace, the program that stands in for every image. Out: one process for each Pod there that is Running, which ends
//! with its Pod; a thread looks ten times a second.
//!
//! A Pod that the scheduler has bound and kwok has marked Running becomes a process of a given program, with
//! the Pod's arguments, environment, volumes and ServiceAccount token; when the Pod goes, so does the process,
//! before another starts. A process that ends by itself is started again, as `restartPolicy: Always` has it.
//!
//! There is no container: paths under a volume's mount path are rewritten, in arguments and variables, to a
//! folder. Where the ServiceAccount's files are is told by the variable [`SERVICE_ACCOUNT_DIR`].

mod pod;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use crate::api::{Api, text_at};
use crate::folder::Folder;
use crate::member::Member;
use crate::process::Process;

pub use pod::SERVICE_ACCOUNT_DIR;

/// How often Pods are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// Before a process that ended is started again.
const BACKOFF: Duration = Duration::from_secs(1);

/// A kubelet for one namespace and one program; everything that it started ends with its value.
pub struct Kubelet {
    stop: Arc<AtomicBool>,
    running: Arc<Mutex<BTreeMap<String, Running>>>,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: Arc<Folder>,
}

struct Running {
    name: String,
    process: Process,
    started: Instant,
    restarts: u32,
}

/// Where a Pod's process gets what it needs from.
struct Site {
    api: Api,
    namespace: String,
    program: PathBuf,
    port: u16,
    folder: Arc<Folder>,
}

impl Kubelet {
    /// Runs Pods of `namespace` on `member` as `program`.
    pub fn start(member: &Member, namespace: &str, program: impl Into<PathBuf>) -> Kubelet {
        let folder = Arc::new(Folder::new(&format!("{}-kubelet", member.name())));
        let site = Site {
            api: member.api().clone(),
            namespace: namespace.to_owned(),
            program: program.into(),
            port: member.port(),
            folder: folder.clone(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let running = Arc::new(Mutex::new(BTreeMap::new()));
        let (stopped, shared) = (stop.clone(), running.clone());
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                // While the API server is away everything goes on as it is.
                if let Ok(pods) = site.api.list(&format!("/api/v1/namespaces/{}/pods", site.namespace)) {
                    site.sync(&pods, &shared);
                }
                std::thread::sleep(INTERVAL);
            }
        };
        Kubelet { stop, running, thread: Some(std::thread::spawn(run)), folder }
    }

    /// Names of the Pods whose processes run now.
    pub fn pods(&self) -> Vec<String> {
        self.lock().values().map(|running| running.name.clone()).collect()
    }

    /// Process ids by the names of their Pods.
    pub fn process_ids(&self) -> BTreeMap<String, u32> {
        self.lock().values().map(|running| (running.name.clone(), running.process.id())).collect()
    }

    /// How often the Pod's process was started again after it ended by itself.
    pub fn restarts(&self, pod: &str) -> u32 {
        self.lock().values().find(|running| running.name == pod).map_or(0, |running| running.restarts)
    }

    /// The end of every process's log, for messages.
    pub fn tails(&self) -> String {
        let tails: Vec<String> = self.lock().values().map(|running| running.process.tail(15)).collect();
        if tails.is_empty() { "no process runs".to_owned() } else { tails.join("\n") }
    }

    /// SIGKILL to every process; each is started again, as a crashed container is.
    pub fn kill_processes(&self) {
        self.lock().values_mut().for_each(|running| running.process.kill());
    }

    /// Where logs and volumes are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Running>> {
        // A panic elsewhere leaves a map that is still good.
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.lock().clear();
    }
}

impl Site {
    fn sync(&self, pods: &[Value], running: &Mutex<BTreeMap<String, Running>>) {
        let mut running = running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted: BTreeMap<&str, &Value> = pods
            .iter()
            .filter(|pod| is_to_run(pod))
            .map(|pod| (text_at(pod, "/metadata/uid"), pod))
            .collect();
        // Ends before starts: two agents of one identity would be a clone.
        running.retain(|uid, running| {
            let keep = wanted.contains_key(uid.as_str());
            if !keep && running.process.ended().is_none() {
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.process.stop()));
            }
            keep
        });
        for (uid, pod) in wanted {
            if let Err(error) = self.keep_running(uid, pod, &mut running) {
                let name = text_at(pod, "/metadata/name");
                let _ = std::fs::write(self.folder.join(format!("{name}.error")), format!("{error:#}\n"));
            }
        }
    }

    fn keep_running(&self, uid: &str, pod: &Value, running: &mut BTreeMap<String, Running>) -> Result<()> {
        let restarts = match running.get_mut(uid) {
            Some(running) => {
                if running.process.ended().is_none() || running.started.elapsed() < BACKOFF {
                    return Ok(());
                }
                running.restarts + 1
            }
            None => 0,
        };
        let process = self.program(pod)?.start();
        let name = text_at(pod, "/metadata/name").to_owned();
        running.insert(uid.to_owned(), Running { name, process, started: Instant::now(), restarts });
        Ok(())
    }
}

fn is_to_run(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_none() && text_at(pod, "/status/phase") == "Running"
}

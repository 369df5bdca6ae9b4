//! kubectl's whole command set: the same command lines against a real kube-apiserver and a hub, and what they print compared.
//!
//! In: `kubectl/*.yaml`, scripts of shell lines with kubectl (built beside the members, or of `KUBEBUILDER_ASSETS`) in a folder and a namespace of their
//! own on each server; neither runs controllers, so that every answer is the API server's. Out: for each line that differs, what it
//! printed and how it ended on both. A line that may differ says why; one that says so and does not differ fails.
//! `KUBECTL_ONLY=words` runs only scripts whose names hold one of the words (separated by commas).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use regex::Regex;
use serde::Deserialize;
use tests::folder::Folder;
use tests::hub::{Hub, HubOptions};
use tests::member::{Member, MemberOptions};

/// Scripts under way at once, each on both servers.
const WORKERS: usize = 3;

/// What is run in one namespace, line after line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    steps: Vec<Step>,
}

/// A line for the shell, or one that may differ.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Step {
    Same(String),
    Differs { run: String, differs: String },
}

impl Step {
    fn line(&self) -> &str {
        match self {
            Step::Same(line) | Step::Differs { run: line, .. } => line,
        }
    }
}

/// What a line printed and how it ended, without what may differ between two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Printed {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// One of the two servers.
struct Server {
    name: &'static str,
    kubeconfig: PathBuf,
    folder: Folder,
}

impl Server {
    fn new(name: &'static str, kubeconfig: PathBuf) -> Server {
        Server { name, kubeconfig, folder: Folder::new(name) }
    }

    /// Runs the script's lines in a namespace and a folder of its own.
    fn run(&self, script: &Script, number: usize) -> Vec<Printed> {
        let folder = self.folder.path().join(format!("script-{number}"));
        std::fs::create_dir_all(folder.join("files")).unwrap();
        std::fs::copy(&self.kubeconfig, folder.join("kubeconfig")).unwrap();
        for (name, text) in &script.files {
            let path = folder.join("files").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let namespace = format!("script-{number}");
        let begin = format!(
            "kubectl create namespace {namespace} && kubectl config set-context --current --namespace={namespace}"
        );
        let begun = self.shell(&folder, &begin);
        assert_eq!(begun.code, Some(0), "{}: {}: {begun:?}", self.name, script.name);
        script.steps.iter().map(|step| self.shell(&folder, step.line())).collect()
    }

    fn shell(&self, folder: &Path, line: &str) -> Printed {
        let bin = tests::kube_binaries::kubectl_folder();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("timeout")
            .args(["60", "sh", "-c", line])
            .current_dir(folder.join("files"))
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .env("HOME", folder)
            .env("LC_ALL", "C")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes), folder);
        Printed { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// What may differ between two servers, and what stands for it.
const PATTERNS: &[(&str, &str)] = &[
    // Names that a server draws after what the scripts call `drawn-`; before all others, as some read like ages (`5m2s8`).
    (r"\bdrawn-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "drawn-XXXXX"),
    (r"https?://127\.0\.0\.1:\d+", "SERVER"),
    (r"127\.0\.0\.1:\d+", "SERVER"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC", "TIME"),
    (r#"((?:resourceVersion|Resource ?Version)\\*"?:\s*\\*"?)\d+"#, "${1}VERSION"),
    (r"[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOGGED "),
    (r"X509SHA256=[0-9a-f]{64}", "FINGERPRINT"),
    (r"system:admin", "admin"),
    // Of either range that a Service may get its address from: one script has a ServiceCIDR of its own, beside the others.
    (r"\b(?:10\.\d+|198\.51)\.\d+\.\d+\b", "ADDRESS"),
    (r"\b3[0-2]\d{3}\b", "PORT"),
    (r"\b\d+(ms|s|m\d*s?|h\d*m?)( ago)?\b", "AGE"),
    (r"<invalid>|<unknown>", "AGE"),
    (r"karmada-hub", "kube-apiserver"),
    (r"(?m)[ \t]+$", ""),
    (r" {2,}|\t+", "  "),
    (r"-{4,}", "----"),
];

/// Text without uids, times, versions, addresses, tokens and the widths that come of them.
fn normal(text: &str, folder: &Path) -> String {
    static COMPILED: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let compile = || PATTERNS.iter().map(|(pattern, by)| (Regex::new(pattern).unwrap(), *by)).collect();
    let mut text = text.replace(&folder.display().to_string(), "FOLDER");
    // Fields of an object come in any order.
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
        text = serde_json::to_string_pretty(&value).unwrap_or(text);
    }
    for (pattern, by) in COMPILED.get_or_init(compile) {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    text
}

fn scripts() -> Vec<Script> {
    let folder = tests::folder::workspace_root().join("tests/tests/clients/kubectl");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let part: Vec<Script> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        all.extend(part);
    }
    let only = std::env::var("KUBECTL_ONLY").unwrap_or_default();
    all.retain(|script| only.is_empty() || only.split(',').any(|word| script.name.contains(word)));
    all
}

/// What differs, as a reader compares it: lines that only one side printed.
fn difference(truth: &str, hub: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (truth.lines().collect(), hub.lines().collect());
    let mut text = String::new();
    for (sign, lines, others) in [("kube-apiserver", &left, &right), ("hub           ", &right, &left)] {
        for line in lines.iter().filter(|line| !others.contains(line)).take(12) {
            let _ = writeln!(text, "    {sign} | {line}");
        }
    }
    if text.is_empty() {
        text.push_str("    the same lines in another order or number\n");
    }
    text
}

/// What differs in one script, and how many lines were listed as different.
fn compare(script: &Script, truth: &[Printed], hub: &[Printed]) -> (String, usize) {
    let (mut report, mut listed) = (String::new(), 0);
    for ((step, truth), hub) in script.steps.iter().zip(truth).zip(hub) {
        match (step, truth == hub) {
            (Step::Same(_), true) => {}
            (Step::Differs { differs, .. }, false) => {
                assert!(!differs.is_empty(), "{}: a difference without a reason", script.name);
                listed += 1;
            }
            (Step::Differs { run, .. }, true) => {
                let _ = writeln!(report, "  $ {run}\n    is listed as a difference, and does not differ");
            }
            (Step::Same(run), false) => {
                let _ = writeln!(report, "  $ {}", run.trim_end());
                if truth.code != hub.code {
                    let _ = writeln!(report, "    ended with {:?} and {:?}", truth.code, hub.code);
                }
                for (truth, hub) in [(&truth.stdout, &hub.stdout), (&truth.stderr, &hub.stderr)] {
                    if truth != hub {
                        report.push_str(&difference(truth, hub));
                    }
                }
            }
        }
    }
    (report, listed)
}

/// kube-apiserver looks over the addresses of Services every three minutes, and tells of one that it gives out at that very moment: such
/// a script is run once more.
const REPAIR: &str = "ClusterIPNotAllocated";

#[test]
fn every_command_prints_the_same() {
    let all = scripts();
    let plugins =
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection";
    let options = MemberOptions { apiserver_args: vec![plugins.into()], ..MemberOptions::bare("kubectl") };
    let (member, hub) = std::thread::scope(|scope| {
        let member = scope.spawn(|| Member::start(options));
        let hub = Hub::start(HubOptions { args: vec!["--controllers=none".into()], ..HubOptions::default() });
        (member.join().expect("the member comes up"), hub)
    });
    let servers = [Server::new("truth", member.kubeconfig()), Server::new("hub", hub.kubeconfig())];
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(BTreeMap::new());
    let listed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = all.get(number) else { return };
                    let [truth, hub] = &servers;
                    let both = |number| {
                        std::thread::scope(|both| {
                            let hub = both.spawn(move || hub.run(script, number));
                            (truth.run(script, number), hub.join().unwrap())
                        })
                    };
                    let (mut truth, mut hub) = both(number);
                    if truth.iter().any(|printed| printed.stdout.contains(REPAIR)) {
                        (truth, hub) = both(number + all.len());
                    }
                    let (report, different) = compare(script, &truth, &hub);
                    listed.fetch_add(different, Ordering::Relaxed);
                    if !report.is_empty() {
                        reports.lock().unwrap().insert(number, format!("{}\n{report}", script.name));
                    }
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap();
    for report in reports.values() {
        println!("{report}");
    }
    let lines: usize = all.iter().map(|script| script.steps.len()).sum();
    let listed = listed.into_inner();
    println!("kubectl: {} scripts, {lines} lines, {listed} listed differences", all.len());
    assert!(reports.is_empty(), "{} of {} scripts differ", reports.len(), all.len());
}

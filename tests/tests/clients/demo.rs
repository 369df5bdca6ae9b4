//! `karmada-hub demo`, as somebody follows it who has just met it: the lines that it prints are run as they stand, and then the order of
//! Karmada's tutorial, with the real kubectl.

use std::collections::BTreeMap;
use std::process::Command;

use tests::built::program;
use tests::folder::Folder;
use tests::kube_binaries::{programs, programs_or_skip};
use tests::kubectl::Output;
use tests::process::{Process, Program};
use tests::wait::{TIMEOUT, eventually, so};

const TUTORIAL: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello, labels: {app: hello}}
spec:
  replicas: 2
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec: {containers: [{name: hello, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: hello}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: hello}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
";

/// A running demo, and what it printed.
struct Demo {
    process: Process,
    folder: Folder,
    variables: BTreeMap<String, String>,
    commands: Vec<String>,
}

impl Demo {
    fn start() -> Demo {
        let folder = Folder::new("demo");
        let own = folder.path().display().to_string();
        let demo = Program::new("demo", program("karmada-hub"), folder.path()).env("TMPDIR", own);
        let mut process = demo.args(["demo", "--clusters", "2"]).start();
        let log = process.log().to_owned();
        let printed = eventually("the demo to say how to go on", 2 * TIMEOUT, || {
            process.alive()?;
            let printed = std::fs::read_to_string(&log).unwrap_or_default();
            so(printed.contains("Ctrl-C ends it all"), || printed.clone()).map(|()| printed)
        });
        let lines = || printed.lines().map(str::trim);
        let set = |line: &str| {
            let (name, value) = line.trim_start_matches("export ").split_once('=')?;
            let is_name = name.chars().all(|letter| letter.is_ascii_uppercase());
            is_name.then(|| (name.to_owned(), value.to_owned()))
        };
        let variables = lines().filter_map(set).collect();
        let commands = lines().filter(|line| line.starts_with("kubectl ")).map(str::to_owned).collect();
        Demo { process, folder, variables, commands }
    }

    /// Runs a line in a shell where the printed variables are set.
    fn run(&self, line: &str) -> Output {
        let kubectl = programs().kubectl.parent().unwrap().to_owned();
        let path = format!("{}:{}", kubectl.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", line])
            .env("PATH", path)
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .envs(&self.variables)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        Output {
            command: line.to_owned(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status,
        }
    }

    /// Waits until the line prints `text`.
    #[track_caller]
    fn await_text(&self, line: &str, text: &str) {
        eventually(&format!("{line}: {text}"), TIMEOUT, || {
            let seen = self.run(line);
            so(seen.stdout.contains(text), || seen.to_string())
        });
    }
}

#[test]
fn what_the_demo_prints_works_as_printed_and_the_tutorial_does() {
    if programs_or_skip().is_none() {
        return;
    }
    let mut demo = Demo::start();
    assert!(demo.variables.contains_key("KUBECONFIG") && demo.variables.contains_key("MEMBERS"));
    assert!(demo.commands.iter().any(|line| line.contains("--context member1")), "{:?}", demo.commands);
    for line in &demo.commands {
        // A watch goes on until somebody ends it; what it prints first is what there is.
        let (line, ends_itself) = match line.strip_suffix("--watch") {
            Some(rest) => (format!("timeout 5 {rest}--watch"), false),
            None => (line.clone(), true),
        };
        let seen = demo.run(&line);
        assert!(!seen.stdout.trim().is_empty() && (seen.status.success() || !ends_itself), "{seen}");
    }
    demo.await_text("kubectl get deployment nginx", "9/9");
    demo.await_text("kubectl get clusters", "member2");

    let file = demo.folder.join("tutorial.yaml");
    std::fs::write(&file, TUTORIAL).unwrap();
    demo.run(&format!("kubectl apply -f {}", file.display())).ok();
    let member = |name: &str| format!("kubectl --kubeconfig $MEMBERS --context {name}");
    demo.await_text(&format!("{} get deployment hello", member("member1")), "2/2");
    demo.await_text(&format!("{} get pods -l app=hello", member("member1")), "Running");
    demo.await_text("kubectl get deployment hello", "2/2");
    let elsewhere = demo.run(&format!("{} get deployment hello", member("member2"))).refused();
    assert!(elsewhere.contains("NotFound"), "{elsewhere}");
    demo.run("kubectl delete deployment hello").ok();
    eventually("the Deployment to go from the member", TIMEOUT, || {
        let seen = demo.run(&format!("{} get deployment hello", member("member1")));
        so(seen.stderr.contains("NotFound"), || seen.to_string())
    });
    assert!(demo.process.stop().success(), "{}", demo.process.tail(15));
    let left = demo.folder.path().read_dir().unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("karmada-demo")).collect();
    assert!(left.is_empty(), "its folder goes with it: {left:?}");
}

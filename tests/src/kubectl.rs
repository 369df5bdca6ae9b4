//! The real kubectl, as a user runs it.
//!
//! In: a kubeconfig, and the words of a command. Out: what it printed and how it ended. Blocks until it has ended, two minutes at most;
//! most calls panic where it did not end as the caller expects.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait::{self, eventually, so, try_eventually};

/// No command takes longer, unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client with one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command, for messages.
    pub command: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How it ended.
    pub status: ExitStatus,
}

impl Kubectl {
    /// The kubectl of [`crate::kube_binaries::programs`] on `kubeconfig`.
    pub fn new(kubeconfig: impl Into<PathBuf>) -> Kubectl {
        Kubectl {
            program: crate::kube_binaries::programs().kubectl.clone(),
            kubeconfig: kubeconfig.into(),
            namespace: None,
        }
    }

    /// The same in another namespace.
    pub fn in_namespace(&self, namespace: &str) -> Kubectl {
        Kubectl { namespace: Some(namespace.to_owned()), ..self.clone() }
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs a command: `&["get", "pods"]`.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_with_input(args, "")
    }

    /// Runs a command with `input` on its standard input.
    #[track_caller]
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Output {
        let mut child = self.command(args).spawn().expect("kubectl can be started");
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_owned();
        // On a thread of its own: a client that prints before it reads would wait for us, and we for it.
        let feed = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let status = wait(&mut child, args);
        let _ = feed.join();
        let text = |reader: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
        };
        Output {
            command: format!("kubectl {}", args.join(" ")),
            stdout: text(stdout),
            stderr: text(stderr),
            status,
        }
    }

    /// Runs a command that must succeed; returns what it printed.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Waits until a definition is established. `kubectl wait` fails where it has no conditions yet, as each is in its first
    /// moment: then it is asked again.
    #[track_caller]
    pub fn await_established(&self, definition: &str) {
        let wait = ["wait", "--for=condition=established", "--timeout=30s", &format!("crd/{definition}")];
        eventually("the definition to be established", wait::TIMEOUT, || {
            let answer = self.run(&wait);
            so(answer.status.success(), || answer.to_string())
        });
    }

    /// Runs a command that must be refused; returns its standard error.
    #[track_caller]
    pub fn refused(&self, args: &[&str]) -> String {
        self.run(args).refused()
    }

    /// `kubectl apply -f -` of the text.
    #[track_caller]
    pub fn apply(&self, manifests: &str) -> String {
        self.run_with_input(&["apply", "-f", "-"], manifests).ok()
    }

    /// `kubectl COMMAND -f -` of the text.
    #[track_caller]
    pub fn with_manifests(&self, args: &[&str], manifests: &str) -> Output {
        self.run_with_input(&[args, &["-f", "-"]].concat(), manifests)
    }

    /// What `-o jsonpath=…` prints for `what` (`&["deploy", "nginx"]`); empty where it does not exist.
    #[track_caller]
    pub fn field(&self, what: &[&str], jsonpath: &str) -> String {
        let output = format!("jsonpath={jsonpath}");
        self.run(&[&["get", "--ignore-not-found"], what, &["-o", &output]].concat()).ok()
    }

    /// The object or list, as JSON; `None` where it does not exist.
    #[track_caller]
    pub fn json(&self, what: &[&str]) -> Option<serde_json::Value> {
        let text = self.run(&[&["get", "--ignore-not-found", "-o", "json"], what].concat()).ok();
        let parse = || serde_json::from_str(&text).expect("kubectl prints JSON");
        (!text.trim().is_empty()).then(parse)
    }

    /// Waits until the field prints `expected`.
    #[track_caller]
    pub fn wait_for_field(&self, what: &[&str], jsonpath: &str, expected: &str, timeout: Duration) {
        let name = format!("{} {jsonpath} = {expected}", what.join(" "));
        eventually(&name, timeout, || {
            let seen = self.field(what, jsonpath);
            so(seen == expected, || seen)
        });
    }

    /// Waits until the object is no more.
    #[track_caller]
    pub fn wait_gone(&self, what: &[&str], timeout: Duration) {
        eventually(&format!("{} to be gone", what.join(" ")), timeout, || {
            let seen = self.run(&[&["get", "--ignore-not-found", "-o", "name"], what].concat());
            so(seen.status.success() && seen.stdout.trim().is_empty(), || seen.to_string())
        });
    }

    /// Starts a command that goes on (`get -w`, `port-forward`); its output goes to `log`.
    pub fn background(&self, args: &[&str], name: &str, folder: &Path) -> crate::process::Process {
        let kubeconfig = self.kubeconfig.display().to_string();
        let program = crate::process::Program::new(name, &self.program, folder);
        program.args(args.iter().copied()).env("KUBECONFIG", kubeconfig).args(self.namespace_args()).start()
    }

    fn namespace_args(&self) -> Vec<String> {
        self.namespace.iter().map(|namespace| format!("--namespace={namespace}")).collect()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let cache = self.kubeconfig.with_extension("cache");
        command.args(self.namespace_args()).args(args);
        command.env("KUBECONFIG", &self.kubeconfig).env("KUBECACHEDIR", cache);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Output {
    /// What was printed; panics where the command failed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }

    /// The standard error; panics where the command succeeded.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.status.success(), "it was to be refused: {self}");
        self.stderr
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` ended with {}", self.command, self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.trim().is_empty() {
                write!(f, "\n{name}: {}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

#[track_caller]
fn wait(child: &mut Child, args: &[&str]) -> ExitStatus {
    let ended = try_eventually(TIMEOUT, || child.try_wait().ok().flatten().ok_or_else(String::new));
    ended.unwrap_or_else(|_| {
        let _ = child.kill();
        let mut message = String::new();
        let _ = write!(message, "kubectl {} did not end within {TIMEOUT:?}", args.join(" "));
        panic!("{message}")
    })
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

//! A program under test, and its end.
//!
//! In: a program, its arguments and environment, the folder for its log ([`Program`]). Out: a [`Process`] to ask for its log, memory and
//! processor time, and to stop.
//!
//! Each is in a process group of its own, writes to one log file, and ends with its value; where the whole test
//! process is killed, the kernel ends it (`setpriv --pdeathsig`). That signal comes when the *thread* that
//! started a process ends, so all are started by one thread that never does.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::wait::{so, try_eventually};

/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);

/// What to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// For people, and the log's name: `NAME.log`.
    pub name: String,
    /// The file to run.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to this process's environment.
    pub env: Vec<(String, String)>,
    /// Whether it gets none of this process's environment but PATH.
    pub clean_env: bool,
    /// The folder of its log, and its working directory.
    pub folder: PathBuf,
}

impl Program {
    /// A program without arguments.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Program {
        let (name, path, folder) = (name.into(), path.into(), folder.into());
        Program { name, path, args: Vec::new(), env: Vec::new(), clean_env: false, folder }
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Program {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Program {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts it. Panics where that cannot be done.
    #[track_caller]
    pub fn start(&self) -> Process {
        let log = self.folder.join(format!("{}.log", self.name));
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let (out, err) = (open().expect("the log can be written"), open().expect("the log can be written"));
        let mut command = self.command();
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(out).stderr(err);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match spawn(command) {
            Ok(child) => Process { name: self.name.clone(), log, child, ended: None },
            Err(error) => panic!("cannot start {} ({}): {error}", self.name, self.path.display()),
        }
    }

    fn command(&self) -> Command {
        let mut command = match setpriv() {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        };
        if self.clean_env {
            command.env_clear();
            command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A started program.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file that it writes to, over all its starts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended
    }

    /// `Ok` while it runs: for predicates that wait for something of it.
    ///
    /// # Errors
    /// It has ended: the last lines of its log.
    pub fn alive(&mut self) -> Result<(), String> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(format!("{} ended ({status}); {}", self.name, self.tail(15))),
        }
    }

    /// The last lines of its log, with the log's name.
    pub fn tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut tail = format!("{}:", self.log.display());
        let all: Vec<&str> = text.lines().collect();
        for line in &all[all.len().saturating_sub(lines)..] {
            let _ = write!(tail, "\n  {line}");
        }
        tail
    }

    /// Resident memory in KiB (`VmRSS`); 0 once it has ended.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Processor time used so far, by all its threads; zero once it has ended. In steps of 10 ms, as the kernel counts.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The command's name may hold anything: what is counted comes after its closing parenthesis.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Asks it to end (SIGTERM) and waits. Panics where it does not.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        let ended = try_eventually(GRACE, || self.ended().ok_or_else(String::new));
        ended.unwrap_or_else(|_| {
            let tail = self.tail(15);
            self.kill();
            panic!("{} did not end within {GRACE:?} of SIGTERM; {tail}", self.name)
        })
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.signal("KILL");
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Stops its clock (SIGSTOP): it holds its connections and answers nothing.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// A signal to its whole group. By `kill`, because the standard library knows only SIGKILL.
    fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .args([&format!("-{name}"), "--", &format!("-{}", self.id())])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a command on the thread that outlives all others.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, SyncSender<io::Result<Child>>);
    static SPAWNER: OnceLock<SyncSender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = sync_channel::<Order>(16);
        let run = move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("spawner".into()).spawn(run).expect("a thread can be started");
        sender
    });
    let (answer, answered) = sync_channel(1);
    spawner.send((command, answer)).expect("the spawner never ends");
    answered.recv().expect("the spawner answers")
}

fn setpriv() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find_in_path("setpriv")).as_deref()
}

/// A program by its name, as a shell finds it.
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `Ok` once `process` has written `text` to its log.
///
/// # Errors
/// It has not: the last lines of the log.
pub fn logged(process: &Process, text: &str) -> Result<(), String> {
    let log = std::fs::read(process.log()).unwrap_or_default();
    so(String::from_utf8_lossy(&log).contains(text), || process.tail(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::wait::eventually;

    fn sleeper(folder: &Folder) -> Process {
        let script = "echo started; trap 'echo asked; exit 3' TERM; while :; do sleep 0.05; done";
        let process = Program::new("sleeper", "/bin/sh", folder.path()).args(["-c", script]).start();
        eventually("the first line", GRACE, || logged(&process, "started"));
        process
    }

    #[test]
    fn a_program_is_asked_to_end_and_ends_with_its_value() {
        let folder = Folder::new("process");
        let mut process = sleeper(&folder);
        assert!(process.alive().is_ok() && process.resident_kib() > 0);
        assert_eq!(process.stop().code(), Some(3));
        assert!(process.alive().unwrap_err().contains("asked"), "the log is in the message");
        let process = sleeper(&folder);
        let proc = PathBuf::from(format!("/proc/{}", process.id()));
        assert!(proc.exists());
        drop(process);
        assert!(!proc.exists());
    }
}

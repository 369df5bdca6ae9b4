//! Kubernetes' own end-to-end specs: the program, built from `tests/suite`, and how many of it run side by side.
//!
//! In: a kubeconfig and the specs' full texts. Out: how each ended. A spec that waits for what will never be (a Pod that runs,
//! where there is no node) is ended with its process when its time is over, and the specs after it go on in another.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::clients::{build, had_or_skipped};
use crate::folder::{Folder, target_dir};
use crate::kube_binaries::programs;
use crate::process::{Process, Program};

/// Specs that one process is given: its start costs a tenth of a second, and an ended one leaves the rest to the next.
const BATCH: usize = 8;

/// How long a process may take before its first spec and after its last.
const AROUND: Duration = Duration::from_secs(30);

/// How a spec ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// `passed`, `failed`, `skipped`, `panicked`, or `timedout` where it was ended from outside.
    pub state: String,
    /// How long it took.
    pub seconds: f64,
    /// What failed, and where.
    pub message: String,
    /// The end of what a failed spec logged.
    pub log: String,
}

impl Ended {
    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.state == "passed"
    }
}

/// How specs are run.
#[derive(Clone, Debug)]
pub struct How {
    /// Who is asked, as whom.
    pub kubeconfig: PathBuf,
    /// Processes side by side.
    pub workers: usize,
    /// What one spec may take.
    pub limit: Duration,
}

/// The program, or a line `skipped: …` and `None` where it cannot be had; in CI that is a failure. Built on first use.
pub fn program_or_skip() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    had_or_skipped(FOUND.get_or_init(|| {
        let bin = target_dir().join("suite").join("bin");
        build("tests/suite/build", &bin)?;
        Ok(bin.join("suite"))
    }))
}

/// The full text of every spec that the program has.
pub fn all(program: &Path) -> Vec<String> {
    crate::clients::run(program, &["--list"], &[]).ok().lines().map(str::to_owned).collect()
}

/// Runs specs: those that ask for the cluster of their own after the others, one by one.
pub fn run(program: &Path, how: &How, specs: &[String]) -> BTreeMap<String, Ended> {
    let (alone, together): (Vec<&String>, Vec<&String>) =
        specs.iter().partition(|spec| spec.contains("[Serial]"));
    let mut ended = side_by_side(program, how, &together);
    ended.extend(side_by_side(program, &How { workers: 1, ..how.clone() }, &alone));
    ended
}

fn side_by_side(program: &Path, how: &How, specs: &[&String]) -> BTreeMap<String, Ended> {
    let waiting: Mutex<VecDeque<String>> = Mutex::new(specs.iter().copied().cloned().collect());
    let ended = Mutex::new(BTreeMap::new());
    let folder = Folder::new("suite");
    let next_batch = || -> Vec<String> {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Smaller at the end, so that all workers end together.
        let share = waiting.len().div_ceil(2 * how.workers).clamp(1, BATCH).min(waiting.len());
        waiting.drain(..share).collect()
    };
    std::thread::scope(|scope| {
        for _ in 0..how.workers {
            scope.spawn(|| {
                loop {
                    let mut batch = next_batch();
                    if batch.is_empty() {
                        return;
                    }
                    while !batch.is_empty() {
                        let outcomes = one_process(program, how, &folder, &batch);
                        batch.retain(|spec| !outcomes.contains_key(spec));
                        ended.lock().unwrap_or_else(PoisonError::into_inner).extend(outcomes);
                    }
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a batch in one process until it ends or a spec's time is over. At least one of the batch is in the answer.
fn one_process(program: &Path, how: &How, folder: &Folder, batch: &[String]) -> BTreeMap<String, Ended> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("suite-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let (specs, results) = (folder.join(format!("{name}.specs")), folder.join(format!("{name}.results")));
    std::fs::write(&specs, batch.join("\n")).expect("the specs' names can be written");
    let mut process = start(program, how, folder, &name, &specs, &results);
    let mut seen = Seen::default();
    let mut since = Instant::now();
    loop {
        let over = process.ended().is_some();
        let news = seen.read(&results);
        if news {
            since = Instant::now();
        }
        if over {
            break;
        }
        let limit = if seen.under_way.is_some() { how.limit } else { AROUND };
        if since.elapsed() > limit {
            process.kill();
            seen.read(&results);
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // One that began and did not end is to blame; where none began, the first is, so that the rest go on.
    let blamed = seen.under_way.take().or_else(|| batch.first().filter(|_| seen.ended.is_empty()).cloned());
    if let Some(spec) = blamed {
        let message = format!("it did not end within {:?}; {}", how.limit, process.tail(5));
        let seconds = since.elapsed().as_secs_f64();
        seen.ended.insert(spec, Ended { state: "timedout".into(), seconds, message, log: String::new() });
    }
    seen.ended
}

fn start(program: &Path, how: &How, folder: &Folder, name: &str, specs: &Path, results: &Path) -> Process {
    // Some specs ask kubectl.
    let tools = programs().kubectl.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    Program::new(name, program, folder.path())
        .env("PATH", format!("{tools}:{path}"))
        .args([
            format!("--kubeconfig={}", how.kubeconfig.display()),
            format!("--specs={}", specs.display()),
            format!("--results={}", results.display()),
            format!("--e2e-output-dir={}", folder.path().display()),
            "--provider=skeleton".to_owned(),
            "--allowed-not-ready-nodes=-1".to_owned(),
        ])
        .start()
}

/// What a process's results say so far.
#[derive(Default)]
struct Seen {
    lines: usize,
    under_way: Option<String>,
    ended: BTreeMap<String, Ended>,
}

#[derive(Deserialize)]
struct Line {
    spec: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    log: String,
}

impl Seen {
    /// Reads on; true where something was new. A line that is still being written is read the next time.
    fn read(&mut self, results: &Path) -> bool {
        let text = std::fs::read_to_string(results).unwrap_or_default();
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let before = self.lines;
        for line in whole.lines().skip(before).filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
            self.lines += 1;
            let Line { spec, state, seconds, message, log } = line;
            if state.is_empty() {
                self.under_way = Some(spec);
            } else if self.under_way.as_ref() == Some(&spec) {
                self.under_way = None;
                self.ended.insert(spec, Ended { state, seconds, message, log });
            }
        }
        self.lines > before
    }
}

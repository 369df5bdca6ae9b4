//! The file that audit events go to: a bounded queue, one thread that writes, files that are turned over by size and age.
//!
//! In: lines. Out: a file, or standard output (`-`). Lines are written in the order they came and handed to the kernel when the
//! queue is empty or a quarter of a megabyte is gathered; they are not synced, as kube-apiserver's are not. A full file
//! is renamed to `NAME-TIME.EXT` beside the new one; old ones go by number and age.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_registry::Clock;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Lines that may wait.
const LINES: usize = 10_000;

/// Kibibytes that may wait.
const ROOM: usize = 16 << 10;

/// How long a request waits for room before its event is dropped.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that are gathered before they are written.
const GATHERED: usize = 256 << 10;

/// The size of a file where none is set: kube-apiserver's.
const DEFAULT_MEGABYTES: u64 = 100;

/// Where the log goes and when it is turned over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The file, or `-` for standard output.
    pub path: PathBuf,
    /// Days after which an old file goes; 0 for never.
    pub max_age_days: u32,
    /// Old files that are kept; 0 for all.
    pub max_backups: usize,
    /// Megabytes after which a file is turned over; 0 for a hundred.
    pub max_megabytes: u64,
}

struct Line {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The log.
pub struct AuditLog {
    sender: Mutex<Option<mpsc::Sender<Line>>>,
    room: Arc<Semaphore>,
    counts: Arc<Counts>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl AuditLog {
    /// Opens the file and starts the thread that writes it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(options: &LogOptions, clock: Clock) -> io::Result<Arc<AuditLog>> {
        let target: Box<dyn Target> = if options.path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            Box::new(Turning::open(options, clock)?)
        };
        let (sender, receiver) = mpsc::channel(LINES);
        let counts = Arc::new(Counts::default());
        let told = counts.clone();
        let writer = std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || run(receiver, target, &told))?;
        Ok(Arc::new(AuditLog {
            sender: Mutex::new(Some(sender)),
            room: Arc::new(Semaphore::new(ROOM)),
            counts,
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// Hands over a line; waits a second for room at most, then drops it.
    pub async fn write(&self, bytes: Vec<u8>) {
        let Some(sender) = self.sender.lock().clone() else { return self.drop_one() };
        let sent = tokio::time::timeout(ROOM_TIMEOUT, async {
            let room = self.room.clone().acquire_many_owned(weight(&bytes)).await.ok()?;
            sender.send(Line { bytes, _room: room }).await.ok()
        });
        if !matches!(sent.await, Ok(Some(()))) {
            self.drop_one();
        }
    }

    /// Hands over a line where there is room at once, else drops it.
    pub fn offer(&self, bytes: Vec<u8>) {
        let sender = self.sender.lock().clone();
        let sent = sender.and_then(|sender| {
            let room = self.room.clone().try_acquire_many_owned(weight(&bytes)).ok()?;
            sender.try_send(Line { bytes, _room: room }).ok()
        });
        if sent.is_none() {
            self.drop_one();
        }
    }

    fn drop_one(&self) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Events written, and events lost to a full queue or a failing disk.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.counts.written), read(&self.counts.dropped) + read(&self.counts.failed))
    }

    /// Writes what waits and ends the thread; lines that come later are dropped. Blocks.
    pub fn close(&self) {
        self.sender.lock().take();
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the audit log's writer broke down");
        }
    }
}

fn weight(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len() / 1024 + 1).unwrap_or(u32::MAX).min(ROOM as u32)
}

/// Where bytes go.
trait Target: Send {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Target for io::Stdout {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = self.lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

fn run(mut lines: mpsc::Receiver<Line>, mut target: Box<dyn Target>, counts: &Counts) {
    let mut gathered: Vec<u8> = Vec::new();
    let mut failing = false;
    while let Some(line) = lines.blocking_recv() {
        let (mut count, mut held) = (1, vec![line._room]);
        gathered.extend_from_slice(&line.bytes);
        while gathered.len() < GATHERED
            && let Ok(line) = lines.try_recv()
        {
            gathered.extend_from_slice(&line.bytes);
            held.push(line._room);
            count += 1;
        }
        match target.put(&gathered) {
            Ok(()) => {
                counts.written.fetch_add(count, Ordering::Relaxed);
                failing = false;
            }
            Err(error) => {
                counts.failed.fetch_add(count, Ordering::Relaxed);
                // Said once until it works again: a full disk fails thousands of times a second.
                if !failing {
                    tracing::error!(%error, "audit events are lost: the log cannot be written");
                }
                failing = true;
            }
        }
        gathered.clear();
        gathered.shrink_to(GATHERED);
    }
}

/// A file that is turned over when it is full.
struct Turning {
    options: LogOptions,
    clock: Clock,
    file: File,
    size: u64,
}

impl Turning {
    fn open(options: &LogOptions, clock: Clock) -> io::Result<Turning> {
        let file = append(&options.path)?;
        let size = file.metadata()?.len();
        Ok(Turning { options: options.clone(), clock, file, size })
    }

    fn limit(&self) -> u64 {
        let megabytes =
            if self.options.max_megabytes == 0 { DEFAULT_MEGABYTES } else { self.options.max_megabytes };
        megabytes << 20
    }

    fn turn(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        fs::rename(path, path.with_file_name(backup_name(path, (self.clock)())))?;
        self.file = append(path)?;
        self.size = 0;
        self.clean();
        Ok(())
    }

    /// Removes old files; what cannot be removed stays.
    fn clean(&self) {
        let path = &self.options.path;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(entries) = fs::read_dir(folder) else { return };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        for name in superfluous(path, names, (self.clock)(), &self.options) {
            if let Err(error) = fs::remove_file(folder.join(&name)) {
                tracing::warn!(name, %error, "an old audit log cannot be removed");
            }
        }
    }
}

impl Target for Turning {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.limit() {
            self.turn()?;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

const BACKUP_TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

fn stem_and_extension(path: &Path) -> (String, String) {
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    let extension = text(path.extension());
    (text(path.file_stem()), if extension.is_empty() { extension } else { format!(".{extension}") })
}

fn backup_name(path: &Path, now: jiff::Timestamp) -> String {
    let (stem, extension) = stem_and_extension(path);
    format!("{stem}-{}{extension}", now.strftime(BACKUP_TIME))
}

/// Which of the files in the log's folder go: turned-over ones that are too many or too old. Pure.
fn superfluous(path: &Path, names: Vec<String>, now: jiff::Timestamp, options: &LogOptions) -> Vec<String> {
    let (stem, extension) = stem_and_extension(path);
    let time = |name: &str| {
        let middle = name.strip_prefix(&format!("{stem}-"))?.strip_suffix(&extension)?;
        let civil = jiff::civil::DateTime::strptime(BACKUP_TIME, middle).ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    let mut old: Vec<(jiff::Timestamp, String)> =
        names.into_iter().filter_map(|name| Some((time(&name)?, name))).collect();
    old.sort_by(|a, b| b.cmp(a));
    let age = i64::from(options.max_age_days) * 24 * 3600;
    let gone = |(index, (made, _)): &(usize, (jiff::Timestamp, String))| {
        (options.max_backups > 0 && *index >= options.max_backups)
            || (age > 0 && now.as_second() - made.as_second() > age)
    };
    old.into_iter().enumerate().filter(gone).map(|(_, (_, name))| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> jiff::Timestamp {
        text.parse().unwrap()
    }

    fn clock() -> Clock {
        Arc::new(|| at("2026-05-01T12:00:00.5Z"))
    }

    #[test]
    fn old_files_go_by_number_and_by_age() {
        let path = Path::new("/var/log/audit.log");
        let name = |time: &str| backup_name(path, at(time));
        assert_eq!(name("2026-05-01T12:00:00.5Z"), "audit-2026-05-01T12-00-00.500.log");
        let names: Vec<String> =
            ["2026-04-01T00:00:00Z", "2026-04-29T00:00:00Z", "2026-04-30T00:00:00Z"].map(name).into();
        let others = ["audit.log", "audit-x.log", "other-2026-04-01T00-00-00.000.log"].map(str::to_owned);
        let all: Vec<String> = names.iter().cloned().chain(others).collect();
        let gone = |max_age_days, max_backups| {
            let options = LogOptions { max_age_days, max_backups, ..LogOptions::default() };
            superfluous(path, all.clone(), at("2026-05-01T00:00:00Z"), &options)
        };
        assert!(gone(0, 0).is_empty());
        assert_eq!(gone(0, 2), names[..1]);
        assert_eq!(gone(7, 0), names[..1]);
        assert_eq!(gone(1, 1), [names[1].clone(), names[0].clone()]);
    }

    #[tokio::test]
    async fn lines_stay_in_order_and_a_full_file_is_turned_over() {
        let folder = std::env::temp_dir().join(format!(
            "audit-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let _ = fs::remove_dir_all(&folder);
        let path = folder.join("audit.log");
        let options = LogOptions { path: path.clone(), max_megabytes: 1, ..LogOptions::default() };
        let log = AuditLog::start(&options, clock()).unwrap();
        let long = "x".repeat(300 << 10);
        for number in 0..5 {
            log.write(format!("{number} {long}\n").into_bytes()).await;
        }
        let log = Arc::into_inner(log).unwrap();
        tokio::task::spawn_blocking(move || {
            log.close();
            assert_eq!(log.counts(), (5, 0));
            log.offer(b"late".to_vec());
            assert_eq!(log.counts(), (5, 1));
        })
        .await
        .unwrap();
        let backup = fs::read_to_string(folder.join("audit-2026-05-01T12-00-00.500.log")).unwrap();
        let numbers = |text: &str| text.lines().map(|line| line[..1].to_owned()).collect::<String>();
        let all = numbers(&backup) + &numbers(&fs::read_to_string(&path).unwrap());
        assert_eq!(all, "01234");
        assert!(backup.len() as u64 <= 1 << 20);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_full_disk_loses_events_and_stops_nothing() {
        if !Path::new("/dev/full").exists() {
            return println!("skipped: a_full_disk_loses_events_and_stops_nothing (/dev/full is absent)");
        }
        let options = LogOptions { path: "/dev/full".into(), ..LogOptions::default() };
        let log = AuditLog::start(&options, clock()).unwrap();
        for _ in 0..3 {
            log.write(b"line\n".to_vec()).await;
        }
        let log = Arc::into_inner(log).unwrap();
        tokio::task::spawn_blocking(move || {
            log.close();
            assert_eq!(log.counts(), (0, 3));
        })
        .await
        .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_disk_costs_a_second_and_then_the_event() {
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Target for Stuck {
            fn put(&mut self, _: &[u8]) -> io::Result<()> {
                let _ = self.0.recv();
                Ok(())
            }
        }
        let (free, held) = std::sync::mpsc::channel();
        let (sender, receiver) = mpsc::channel(4);
        let counts = Arc::new(Counts::default());
        let told = counts.clone();
        let writer = std::thread::spawn(move || run(receiver, Box::new(Stuck(held)), &told));
        let log = AuditLog {
            sender: Mutex::new(Some(sender)),
            room: Arc::new(Semaphore::new(2)),
            counts,
            writer: Mutex::new(Some(writer)),
        };
        for _ in 0..4 {
            log.write(b"line\n".to_vec()).await;
        }
        // Two had room; the others waited their second and were dropped.
        assert_eq!(log.counts.dropped.load(Ordering::Relaxed), 2);
        drop(free);
        log.close();
        assert_eq!(log.counts(), (2, 2));
    }
}

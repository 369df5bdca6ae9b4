//! What `/metrics` shows, in the Prometheus text format.
//!
//! In: the registry, fairness and the audit log; `/proc/self` of this process. Out: text. Only [`process`] reads files.

use std::fmt::Write;

use karmada_apiserver::audit::AuditLog;
use karmada_apiserver::fairness::Fairness;
use karmada_registry::Registry;

/// The page: how much is stored, and where the store stands.
pub fn page(registry: &Registry, fairness: Option<&Fairness>, audit: Option<&AuditLog>) -> String {
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    line(format_args!(
        "# HELP apiserver_storage_objects Number of stored objects at the time of last check split by kind."
    ));
    line(format_args!("# TYPE apiserver_storage_objects gauge"));
    for (storage, count) in registry.cache().counts() {
        line(format_args!("apiserver_storage_objects{{resource=\"{}\"}} {count}", storage.0));
    }
    line(format_args!("# HELP karmada_build_info Which build this is."));
    line(format_args!("# TYPE karmada_build_info gauge"));
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let machine = std::env::consts::ARCH;
    line(format_args!("karmada_build_info{{git_version=\"v{version}\",platform=\"{system}/{machine}\"}} 1"));
    line(format_args!("# HELP karmada_hub_unreadable_objects Objects in the store that cannot be read."));
    line(format_args!("# TYPE karmada_hub_unreadable_objects gauge"));
    line(format_args!("karmada_hub_unreadable_objects {}", registry.cache().unreadable_count()));
    line(format_args!("# HELP karmada_hub_store_revision Revision up to which every write is seen."));
    line(format_args!("# TYPE karmada_hub_store_revision counter"));
    line(format_args!("karmada_hub_store_revision {}", registry.cache().revision()));
    if let Some(audit) = audit {
        let (written, lost) = audit.counts();
        line(format_args!("# HELP apiserver_audit_event_total Audit events written."));
        line(format_args!("# TYPE apiserver_audit_event_total counter"));
        line(format_args!("apiserver_audit_event_total {written}"));
        line(format_args!(
            "# HELP apiserver_audit_error_total Audit events lost to a full queue or a failing disk."
        ));
        line(format_args!("# TYPE apiserver_audit_error_total counter"));
        line(format_args!("apiserver_audit_error_total {lost}"));
    }
    out.push_str(&fairness.map(Fairness::metrics).unwrap_or_default());
    out
}

/// What Prometheus' clients tell of their process: processor time, memory, files, start. What this system does not tell is left out.
pub fn process(started: jiff::Timestamp) -> String {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").map(|files| files.count()).ok();
    let usage = Usage::read(
        &read("stat"),
        &read("limits"),
        u64::try_from(rustix::param::page_size()).unwrap_or(4096),
    );
    let mut out = String::new();
    let mut line = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        let Some(value) = value else { return };
        let _ = writeln!(
            out,
            "# HELP process_{name} {help}\n# TYPE process_{name} {kind}\nprocess_{name} {value}"
        );
    };
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    line(
        "cpu_seconds_total",
        "counter",
        "Processor time, of users and of the system.",
        usage.ticks.map(|t| t as f64 / ticks),
    );
    line("resident_memory_bytes", "gauge", "Memory in use.", usage.resident.map(|bytes| bytes as f64));
    line("virtual_memory_bytes", "gauge", "Memory that is mapped.", usage.mapped.map(|bytes| bytes as f64));
    line("open_fds", "gauge", "Open file descriptors.", open.map(|open| open as f64));
    line("max_fds", "gauge", "File descriptors that may be open.", usage.files.map(|files| files as f64));
    line("threads", "gauge", "Threads.", usage.threads.map(|threads| threads as f64));
    let start = started.as_millisecond() as f64 / 1000.0;
    line("start_time_seconds", "gauge", "When the process began, in seconds since 1970.", Some(start));
    out
}

/// What `/proc/self` tells.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    ticks: Option<u64>,
    threads: Option<u64>,
    mapped: Option<u64>,
    resident: Option<u64>,
    files: Option<u64>,
}

impl Usage {
    /// Of `stat` and `limits` as proc(5) describes them.
    fn read(stat: &str, limits: &str, page: u64) -> Usage {
        // The name of the program comes second, in brackets, and may hold anything.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        // The third field of proc(5) is the first here.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        Usage {
            ticks: field(14).zip(field(15)).map(|(user, system)| user + system),
            threads: field(20),
            mapped: field(23),
            resident: field(24).map(|pages| pages * page),
            files: files.and_then(|rest| rest.split_whitespace().next()?.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 9 0 1000 50000000 2000 18446744073709551615";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 4096                 files\n";
        let read = Usage::read(stat, limits, 4096);
        let expected = Usage {
            ticks: Some(150),
            threads: Some(9),
            mapped: Some(50_000_000),
            resident: Some(8_192_000),
            files: Some(1024),
        };
        assert_eq!(read, expected);
        assert_eq!(Usage::read("", "", 4096).ticks, None);
        assert!(process(jiff::Timestamp::UNIX_EPOCH).contains("process_resident_memory_bytes "));
    }
}

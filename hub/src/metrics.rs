//! What `/metrics` shows, in the Prometheus text format.

use std::fmt::Write;

use karmada_apiserver::audit::AuditLog;
use karmada_apiserver::fairness::Fairness;
use karmada_apiserver::registry::Registry;

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

//! Fields that volumes of Pods and PersistentVolumes share.
//!
//! In: one field, or the source that it stands in, with its path. Out: field errors; whether a name is one of iSCSI. Whether a path or name
//! exists on a node is not known here.

use std::sync::LazyLock;

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use regex::Regex;
use serde_json::Value;

use super::{Errors, invalid_each, names, text};

/// The name of a CSI driver where it is referred to.
pub(super) fn csi_driver_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    let lower = name.to_lowercase();
    invalid_each(errors, path, name, names::dns_subdomain(&lower));
}

/// The same, as facts name it.
pub(super) fn driver_name(name: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    csi_driver_name(name.as_str().unwrap_or_default(), path, errors);
}

/// A path that does not climb.
pub(super) fn stays_below(path: &Value, _: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    if path.as_str().is_some_and(|path| path.split('/').any(|part| part == "..")) {
        errors.push(FieldError::invalid(at, path.clone(), "must not contain '..'"));
    }
}

/// A text that must be there.
pub(super) fn required(source: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if text(source, field).is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    }
}

/// A path of the node.
pub(super) fn host_path(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let target = text(source, "path");
    if target.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(&path.child("path"), target, "must not contain '..'"));
    }
    let kind = text(source, "type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
}

/// A path from the root.
pub(super) fn absolute(path: &Value, _: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    let path = path.as_str().unwrap_or_default();
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(at, path, "must be an absolute path"));
    }
}

static ISCSI: LazyLock<Regex> = LazyLock::new(|| {
    let forms = "iqn\\.[0-9]{4}-[0-9]{2}\\.[[:alnum:]\\-.]+:[^,;*&$|\\t\\n\\f\\r ]+$|^eui.[[:alnum:]]{16}$|^naa.[[:alnum:]]{32}$";
    Regex::new(forms).expect("the pattern above is a regular expression")
});

/// Whether a name of iSCSI is well formed.
pub(super) fn is_iscsi_name(name: &str) -> bool {
    ["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start)) && ISCSI.is_match(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iscsi_count_ascii_digits_and_spaces_alone() {
        for (name, wanted) in [
            ("iqn.2001-04.com.example:storage", true),
            ("iqn.200\u{661}-04.com.example:storage", false),
            ("iqn.2001-04.com.example:a b", false),
            ("iqn.2001-04.com.example:a\u{a0}b", true),
            ("eui.02004567A425678D", true),
        ] {
            assert_eq!(is_iscsi_name(name), wanted, "{name}");
        }
    }
}

//! The shapes of names in Kubernetes: labels, keys, DNS labels and subdomains.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::field_error::FieldError;

/// What a wrong key is told.
pub const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// What a wrong label value is told.
pub const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// What a wrong DNS label is told.
pub const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn is_word(text: &str, limit: usize) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            bytes.len() <= limit
                && first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|b| inner(*b))
        }
        _ => false,
    }
}

/// Whether `text` is a label value: empty, or at most 63 characters of a word.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text, 63)
}

/// Whether `text` is a label or annotation key: a word, with or without a DNS subdomain before it.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_word(text, 63),
        Some((prefix, name)) => is_dns1123_subdomain(prefix) && is_word(name, 63),
    }
}

/// Whether `text` is a DNS label (RFC 1123): at most 63 of a-z, 0-9 and inner dashes.
pub fn is_dns1123_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.len() <= 63
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

/// Whether `text` is a DNS subdomain: at most 253 characters, DNS labels joined by dots.
pub fn is_dns1123_subdomain(text: &str) -> bool {
    let part = |label: &str| {
        let bytes = label.as_bytes();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// What is wrong with a label selector.
pub fn validate_label_selector(selector: &LabelSelector, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        let path = format!("{path}.matchLabels");
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid(path.clone(), key.as_str(), QUALIFIED_NAME));
        }
        if !is_label_value(value) {
            errors.push(FieldError::invalid(path, value.as_str(), LABEL_VALUE));
        }
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        if !is_qualified_name(&requirement.key) {
            errors.push(FieldError::invalid(format!("{path}.key"), requirement.key.as_str(), QUALIFIED_NAME));
        }
        for (index, value) in values.iter().enumerate().filter(|(_, v)| !is_label_value(v)) {
            errors.push(FieldError::invalid(format!("{path}.values[{index}]"), value.as_str(), LABEL_VALUE));
        }
    }
    errors
}

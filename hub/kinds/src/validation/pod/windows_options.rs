//! `windowsOptions` of a Pod or a container: accounts, and containers that are the node's own processes.
//!
//! In: the options, or a Pod's spec. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, invalid_each, list, names};

/// One `windowsOptions`.
pub(in crate::validation) fn options(
    options: &Value,
    _: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        invalid_each(errors, &path.child("gmsaCredentialSpecName"), name, names::dns_subdomain(name));
    }
    if let Some(credentials) = options["gmsaCredentialSpec"].as_str() {
        let detail = match credentials.len() {
            0 => "gmsaCredentialSpec cannot be an empty string",
            length if length > 64 * 1024 => "gmsaCredentialSpec size must be under 64 KiB",
            _ => "",
        };
        if !detail.is_empty() {
            errors.push(FieldError::invalid(&path.child("gmsaCredentialSpec"), credentials, detail));
        }
    }
    if let Some(user) = options["runAsUserName"].as_str() {
        invalid_each(errors, &path.child("runAsUserName"), user, user_problems(user));
    }
}

/// What is wrong with a user's name, with or without a domain before it.
fn user_problems(name: &str) -> Vec<String> {
    let one = |what: &str| vec![format!("runAsUserName {what}")];
    if name.is_empty() {
        return one("cannot be an empty string");
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return one("cannot contain control characters");
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return one("cannot contain more than one backslash"),
    };
    let mut all = Vec::new();
    let mut add = |wrong: bool, what: &str| {
        if wrong {
            all.push(format!("runAsUserName's {what}"));
        }
    };
    if let Some(domain) = domain {
        add(domain.len() >= 256, "Domain length must be under 256 characters");
        let known = is_net_bios(domain) || names::dns_subdomain(&domain.to_lowercase()).is_empty();
        add(!known, "Domain doesn't match the NetBios nor the DNS format");
    }
    add(user.is_empty(), "User cannot be empty");
    add(user.len() > 104, "User length must not be longer than 104 characters");
    let blank = !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' '));
    add(blank, "User cannot contain only periods or spaces");
    let odd = user.chars().any(|c| "\"/\\:;|=,+*?<>@[]".contains(c));
    add(odd, "User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    all
}

fn is_net_bios(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length)
        && !domain.starts_with('.')
        && !domain.chars().any(|c| "\\/:*?\"<>|".contains(c))
}

/// Containers that are the node's own processes: all of a Pod or none, on the node's own network.
pub(in crate::validation) fn host_processes(
    spec: &Value,
    _: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let of = |context: &Value| context["windowsOptions"]["hostProcess"].as_bool();
    let whole = of(&spec["securityContext"]);
    let (mut all, mut processes) = (0, 0);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        let at = path.child(kind);
        for (index, one) in list(spec, kind).iter().enumerate() {
            all += 1;
            let own = of(&one["securityContext"]);
            if let (Some(whole), Some(own)) = (whole, own.filter(|own| Some(*own) != whole)) {
                let detail =
                    format!("pod hostProcess value must be identical if both are specified, was {whole}");
                let at = at.index(index);
                let at = at.child("securityContext");
                let at = at.child("windowsOptions");
                errors.push(FieldError::invalid(&at.child("hostProcess"), own, detail));
            }
            processes += usize::from(own.or(whole) == Some(true));
        }
    }
    if processes == 0 {
        return;
    }
    if processes != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", detail));
    }
    if spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), false, detail));
    }
}

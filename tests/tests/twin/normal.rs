//! Answers without what may differ between two servers: uids, times, resource versions, addresses, drawn names and tokens.
//!
//! What is equal stays equal: the first uid of a sequence is `UID1` wherever it is seen again on that server.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// One server's replacements within a sequence.
#[derive(Default)]
pub struct Normal {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<i64, String>,
    names: BTreeMap<String, String>,
}

/// `12s`, `9m48s`, `12m`, `3h5m`: at most two numbers, each with its unit. The servers start minutes apart on a busy machine.
fn is_age(text: &str) -> bool {
    let parts: Vec<&str> = text.split_inclusive(['s', 'm', 'h', 'd']).collect();
    let is_part = |part: &&str| {
        let number = part.trim_end_matches(['s', 'm', 'h', 'd']);
        number.len() + 1 == part.len()
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    (1..=2).contains(&parts.len()) && parts.iter().all(is_part)
}

fn number(map: &mut BTreeMap<String, String>, prefix: &str, key: &str) -> String {
    let next = map.len() + 1;
    map.entry(key.to_owned()).or_insert_with(|| format!("{prefix}{next}")).clone()
}

impl Normal {
    /// A value without what may differ.
    pub fn value(&mut self, value: Value) -> Value {
        self.at("", value, false)
    }

    fn at(&mut self, key: &str, value: Value, in_list: bool) -> Value {
        match value {
            Value::Object(fields) => self.object(key, fields, in_list),
            // Rules come in the order of bindings, which has none.
            Value::Array(items) if matches!(key, "managedFields" | "resourceRules" | "nonResourceRules") => {
                let mut items: Vec<Value> = items.into_iter().map(|item| self.at("", item, false)).collect();
                items.sort_by_key(Value::to_string);
                Value::Array(items)
            }
            Value::Array(items) if key == "clusterIPs" => {
                items.into_iter().map(|item| self.at("clusterIP", item, false)).collect()
            }
            Value::Array(items) => items.into_iter().map(|item| self.at(key, item, false)).collect(),
            Value::String(text) => Value::String(self.text(key, &text)),
            Value::Number(n) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let port = n.as_i64().unwrap_or(0);
                if port == 0 {
                    return json!(0);
                }
                let next = self.ports.len() + 1;
                json!(self.ports.entry(port).or_insert_with(|| format!("PORT{next}")).clone())
            }
            // Where each server listens.
            Value::Number(n)
                if matches!(key, "port" | "targetPort")
                    && n.as_i64().is_some_and(|port| (32_768..61_000).contains(&port)) =>
            {
                json!("ITS OWN")
            }
            other => other,
        }
    }

    fn object(&mut self, key: &str, mut fields: Map<String, Value>, _in_list: bool) -> Value {
        if let (Some(prefix), Some(name)) =
            (fields.get("generateName").and_then(Value::as_str), fields.get("name").and_then(Value::as_str))
            && name.len() == prefix.len().min(58) + 5
            && name.starts_with(&prefix[..prefix.len().min(58)])
        {
            self.names.insert(name.to_owned(), format!("{prefix}XXXXX"));
        }
        // A list's version is the server's own; what lies between two is not the sequence's.
        let is_list = fields.get("items").is_some_and(|items| items.is_array() || items.is_null())
            || fields.get("rows").is_some()
            || fields.get("type").is_some_and(|t| t == "BOOKMARK");
        if is_list {
            for part in ["metadata", "object"] {
                let Some(part) = fields.get_mut(part) else { continue };
                let meta = if part.get("metadata").is_some() { &mut part["metadata"] } else { part };
                if meta.get("resourceVersion").is_some_and(|v| v != "") {
                    meta["resourceVersion"] = json!("LIST");
                }
            }
        }
        if fields.get("type").is_some_and(|t| t == "BOOKMARK")
            && let Some(version) = fields
                .get_mut("object")
                .and_then(|table| table.pointer_mut("/rows/0/object/metadata/resourceVersion"))
        {
            *version = json!("LIST");
        }
        if fields.get("kind").is_some_and(|kind| kind == "Status") {
            in_order_of_keys(&mut fields);
        }
        if key == "details" {
            // Conflicts of apply come as a Go map gives them.
            if let Some(causes) = fields.get_mut("causes").and_then(Value::as_array_mut)
                && causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict")
            {
                causes.sort_by_key(Value::to_string);
            }
            fields
                .remove("retryAfterSeconds")
                .map(|seconds| fields.insert("retryAfterSeconds".into(), seconds));
        }
        if let Some(name) = fields.get_mut("manager").filter(|name| *name == "karmada-hub") {
            *name = json!("kube-apiserver");
        }
        if fields.contains_key("gitVersion") {
            // What they were built of.
            for field in ["compiler", "gitCommit", "goVersion"] {
                fields.insert(field.to_owned(), json!("ITS OWN"));
            }
        }
        if fields.get("kind").is_some_and(|kind| kind == "APIResourceList")
            && let Some(rows) = fields.get_mut("resources").and_then(Value::as_array_mut)
        {
            // Custom kinds come as a Go map gives them.
            rows.sort_by_key(|row| row["name"].as_str().unwrap_or("").to_owned());
        }
        if key == "columnDefinitions" {
            // Sentences of the Kubernetes documentation, which are not ours.
            fields.insert("description".to_owned(), json!("WORDS"));
        }
        // Karmada's webhooks lay them in, which the twin does not have.
        fields.retain(|name, value| {
            let only = value.as_object().is_some_and(|all| {
                all.len() == 1 && all.keys().all(|name| name.ends_with("karmada.io/permanent-id"))
            });
            !(name.ends_with("karmada.io/permanent-id") || name == "labels" && only)
        });
        let sorted: BTreeMap<String, Value> = fields.into_iter().collect();
        Value::Object(
            sorted
                .into_iter()
                .map(|(name, value)| {
                    let value = self.at(&name, value, false);
                    (name, value)
                })
                .collect(),
        )
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        if let Some((before, after)) = text.split_once("selfType") {
            // The number of a type of a definition's rule is drawn.
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            return format!("{before}SELF TYPE{}", self.text(key, after));
        }
        match key {
            "resourceVersion" if text.bytes().all(|b| b.is_ascii_digit()) && text != "0" => {
                return number(&mut self.versions, "RV", text);
            }
            "continue" => return "CONTINUE".to_owned(),
            "serverAddress" => return "ADDRESS".to_owned(),
            "token" if text.split('.').count() == 3 => return token(text),
            "clusterIP" if text.starts_with("10.") => {
                return number(&mut self.addresses, "IP", text);
            }
            // An age, as a table says it.
            "cells" if is_age(text) => return "AGE".to_owned(),
            "cells" if text.starts_with("10.") && text.parse::<std::net::IpAddr>().is_ok() => {
                return number(&mut self.addresses, "IP", text);
            }
            _ => {}
        }
        // Where a Pod's update is refused, kube-apiserver adds how its own structs differ.
        let mut text = without_diffs(text);
        for (address, plain) in &self.addresses {
            text = text.replace(&format!("{address:?}"), &format!("{plain:?}"));
        }
        for (name, plain) in &self.names {
            text = text.replace(name, plain);
        }
        // Each server has its own range of addresses.
        const RANGE: &str = "The range of valid IPs is ";
        if let Some(start) = text.find(RANGE).map(|at| at + RANGE.len()) {
            let of_range = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/');
            let end = text[start..].find(|c| !of_range(c)).map_or(text.len(), |length| start + length);
            text.replace_range(start..end, "RANGE");
        }
        // The address that was drawn for whoever cannot have one.
        const DRAWN: &str = "IPAddress.networking.k8s.io \"";
        if let Some(start) = text.find(DRAWN).map(|at| at + DRAWN.len()) {
            let end = text[start..].find('"').map_or(text.len(), |length| start + length);
            text.replace_range(start..end, "IP");
        }
        let text = self.uids_in(&sorted_json_in(&structs_in(&text)));
        if let Some(start) = text.find("X509SHA256=") {
            return format!("{}X509SHA256=HASH", &text[..start]);
        }
        versions_in(&times_in(&text))
    }

    fn uids_in(&mut self, text: &str) -> String {
        const SHAPE: [usize; 5] = [8, 4, 4, 4, 12];
        let bytes = text.as_bytes();
        let is_uid = |at: usize| {
            let mut at = at;
            for (part, length) in SHAPE.iter().enumerate() {
                if part > 0 {
                    if bytes.get(at) != Some(&b'-') {
                        return false;
                    }
                    at += 1;
                }
                let Some(hex) = bytes.get(at..at + length) else { return false };
                if !hex.iter().all(u8::is_ascii_hexdigit) {
                    return false;
                }
                at += length;
            }
            true
        };
        let mut out = String::new();
        let mut at = 0;
        while at < text.len() {
            if is_uid(at) {
                out.push_str(&number(&mut self.uids, "UID", &text[at..at + 36]));
                at += 36;
            } else {
                let c = text[at..].chars().next().unwrap();
                out.push(c);
                at += c.len_utf8();
            }
        }
        out
    }
}

/// Without how Go's structs differ, which some refusals of updates add: up to the next error.
fn without_diffs(text: &str) -> String {
    let Some((before, diff)) = text.split_once("\n@@") else { return text.to_owned() };
    let last = if text.contains(" is invalid: [") { "]" } else { "" };
    let rest = diff.find("\n, ").map_or(last, |end| &diff[end + 1..]);
    format!("{before}{}", without_diffs(rest))
}

/// What is wrong with several entries of one map comes as a Go map gives them.
fn in_order_of_keys(status: &mut Map<String, Value>) {
    let named = |cause: &Value| -> Option<String> {
        let (map, key) = cause["field"].as_str()?.strip_suffix(']')?.rsplit_once('[')?;
        (!key.bytes().all(|b| b.is_ascii_digit())).then(|| map.to_owned())
    };
    let told = |causes: &[Value]| -> String {
        let each = causes.iter().map(|cause| {
            format!("{}: {}", cause["field"].as_str().unwrap_or(""), cause["message"].as_str().unwrap_or(""))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let mut message = status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let causes = status.get_mut("details").and_then(|details| details.get_mut("causes")?.as_array_mut());
    let Some(causes) = causes else { return };
    for run in causes.chunk_by_mut(|one, next| named(one).is_some() && named(one) == named(next)) {
        let before = told(run);
        run.sort_by_key(|cause| cause["field"].as_str().map(str::to_owned));
        message = message.replace(&before, &told(run));
    }
    status.insert("message".to_owned(), json!(message));
}

/// A struct of kube-apiserver's own memory, which some messages print: nobody reads it, and who has no such struct cannot write it.
fn structs_in(text: &str) -> String {
    const WORDS: [&str; 3] = ["Invalid value: ", "Unsupported value: ", "Duplicate value: "];
    let found = WORDS.iter().filter_map(|words| text.find(words).map(|at| at + words.len())).min();
    let Some(start) = found else { return text.to_owned() };
    let mut quoted = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let Some(Ok(value)) = quoted.next() else {
        return format!("{}{}", &text[..start], structs_in(&text[start..]));
    };
    let end = start + quoted.byte_offset();
    let shown = match &value {
        Value::Object(_) | Value::Array(_) if has_struct(&value) => "A STRUCT".to_owned(),
        Value::Object(_) | Value::Array(_) => value.to_string(),
        _ => text[start..end].to_owned(),
    };
    format!("{}{shown}{}", &text[..start], structs_in(&text[end..]))
}

fn has_struct(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.keys().any(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
                || fields.values().any(has_struct)
        }
        Value::Array(items) => items.iter().any(has_struct),
        _ => false,
    }
}

/// Objects that messages quote, with their fields in order: which order they stand in is not told to clients.
fn sorted_json_in(text: &str) -> String {
    const WORDS: &str = "Invalid value: ";
    let Some(start) = text.find("Invalid value: \"{").map(|at| at + WORDS.len()) else {
        return text.to_owned();
    };
    let mut quoted = serde_json::Deserializer::from_str(&text[start..]).into_iter::<String>();
    let Some(Ok(inner)) = quoted.next() else { return text.to_owned() };
    let end = start + quoted.byte_offset();
    match serde_json::from_str::<Value>(&inner) {
        Ok(mut value) => {
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
            }
            format!("{}{value}{}", &text[..start], sorted_json_in(&text[end..]))
        }
        Err(_) => text.to_owned(),
    }
}

/// Times of today or nearly so.
fn times_in(text: &str) -> String {
    let now = jiff::Timestamp::now().as_second();
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z')))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let near = word.len() >= 20
            && word.parse::<jiff::Timestamp>().is_ok_and(|time| (time.as_second() - now).abs() < 400 * 86400);
        // Sequences name times of January.
        if near && !word.contains("-01-") {
            out.push_str(if word.contains('.') { "MICROTIME" } else { "TIME" });
            at += end;
        } else {
            let c = rest.chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// Versions in messages, which stand behind a few words.
fn versions_in(text: &str) -> String {
    let mut text = text.to_owned();
    for words in [
        "resource version: ",
        "resourceVersion: ",
        "current: ",
        "list is too old: ",
        "in object meta: ",
        "ResourceVersion in record (",
    ] {
        let mut from = 0;
        while let Some(found) = text[from..].find(words) {
            let start = from + found + words.len();
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                text.replace_range(start..start + digits, "N");
            }
            from = start;
        }
    }
    if let Some(start) = text.find("resource version: N (") {
        let from = start + "resource version: N (".len();
        let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
        text.replace_range(from..from + digits, "N");
    }
    text
}

/// A token's claims by name, its times aside.
fn token(text: &str) -> String {
    use base64::Engine;
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = text.split('.').nth(1).and_then(|part| engine.decode(part).ok());
    let claims: Value = claims.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null);
    let (iat, exp) = (claims["iat"].as_i64().unwrap_or(0), claims["exp"].as_i64().unwrap_or(0));
    let mut names: Vec<&String> = claims.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort();
    format!("TOKEN {names:?} for {} s, sub {}, aud {}", exp - iat, claims["sub"], claims["aud"])
}

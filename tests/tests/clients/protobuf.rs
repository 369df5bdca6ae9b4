//! The hub's protobuf held against Kubernetes' own: objects of every kind, filled at random by Go, read and written here, and
//! compared by Go.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_schema::protobuf::{self, List};
use serde_json::Value;
use tests::clients::{programs_or_skip, run};

/// Objects of each kind; `PROTOBUF_OBJECTS` asks for more.
const OBJECTS: u32 = 10;

/// Kinds of the Go types that are never sent alone.
const UNSERVED: [&str; 4] = [
    "apiextensions.k8s.io/v1 ConversionReview",
    "v1 PodStatusResult",
    "v1 RangeAllocation",
    "v1 SerializedReference",
];

/// The bytes of a list, made item by item as an answer is.
fn written_list(list: &Value) -> Vec<u8> {
    let (api_version, kind) = (list["apiVersion"].as_str().unwrap(), list["kind"].as_str().unwrap());
    let item = (api_version, kind.strip_suffix("List").unwrap());
    let mut made = List::new(api_version, kind, item, &list["metadata"]).unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().for_each(|item| made.measure(item));
    let mut bytes = made.start();
    items.iter().for_each(|item| bytes.extend_from_slice(&made.item(item)));
    assert_eq!(bytes.len(), made.size(), "the length that is told first");
    bytes
}

#[test]
fn every_kind_is_read_and_written_as_by_kubernetes() {
    let Some(programs) = programs_or_skip() else { return };
    let count = std::env::var("PROTOBUF_OBJECTS").ok().and_then(|n| n.parse().ok()).unwrap_or(OBJECTS);
    let seed = std::env::var("PROTOBUF_SEED").unwrap_or_else(|_| "20261122".to_owned());
    let made = run(&programs.clients, &["codec", "make", &count.to_string(), &seed], &[]).ok();
    let (mut lines, mut kinds, mut without) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for line in made.lines() {
        let (json, theirs) = line.split_once('\t').expect("two forms of one object");
        let object: Value = serde_json::from_str(json).unwrap();
        let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let item = kind.strip_suffix("List");
        if !protobuf::has_form(api_version, item.unwrap_or(kind)) {
            without.insert(format!("{api_version} {kind}"));
            continue;
        }
        let (read, written) = match item {
            // Lists are never sent to a server.
            Some(_) => (object.clone(), written_list(&object)),
            None => {
                let read = protobuf::decode(&BASE64.decode(theirs).unwrap());
                let read = read.unwrap_or_else(|error| panic!("seed {seed}: {error}: {json}"));
                (read, protobuf::encode(&object).unwrap_or_else(|error| panic!("seed {seed}: {error}")))
            }
        };
        kinds.insert(format!("{api_version} {kind}"));
        writeln!(lines, "{json}\t{read}\t{}", BASE64.encode(written)).unwrap();
    }
    let mut child = Command::new(&programs.clients)
        .args(["codec", "compare"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let compared = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "seed {seed}:\n{said}");
    // Kinds that no API server serves by themselves: the API server's own tests hold that each one that is served has the form.
    assert_eq!(without.into_iter().collect::<Vec<_>>(), UNSERVED);
    assert!(kinds.len() > 100, "{kinds:?}");
    println!("{}", said.trim());
}

//! How much memory each takes: idle, with many definitions, with many objects; and how soon it is up with them.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wait::{eventually, so};

use crate::Plan;
use crate::server::{Pair, Server, beside, collection};

/// Measures, and adds the rows. Goals: a third of the peer's memory, a third of its time to start.
pub fn run(rows: &mut Rows, plan: &Plan) {
    let mut pair = Pair::start();
    std::thread::sleep(plan.quiet);
    let idle = pair.resident();
    beside(rows, "memory, idle (VmRSS)", idle, "MB", Goal::AtMost(3.0));
    for server in [&pair.ours, &pair.theirs] {
        define(server, plan.definitions);
    }
    std::thread::sleep(plan.quiet);
    let row = format!("memory with {} CRDs (VmRSS)", plan.definitions);
    beside(rows, &row, pair.resident(), "MB", Goal::AtMost(3.0));
    pair.stop();

    let mut pair = Pair::start();
    for server in [&pair.ours, &pair.theirs] {
        server.namespace("many");
        server.fill("many", plan.stored);
    }
    std::thread::sleep(plan.quiet);
    let row = format!("memory with {} objects of 2 KB (VmRSS)", plan.stored);
    let full = pair.resident();
    beside(rows, &row, full, "MB", Goal::AtMost(3.0));
    // They differ in their numbers only. As each is got alone: in a list they lack their kind and version.
    let one = format!("{}/object-000000", collection("many"));
    let stored = |server: &Server| (server.length(&one) * plan.stored) as f64;
    let per_byte = |full: f64, idle: f64, server: &Server| (full - idle) * 1048576.0 / stored(server);
    let ours = per_byte(full.0, idle.0, &pair.ours);
    let theirs = per_byte(full.1, idle.1, &pair.theirs);
    let row = "memory for each byte of stored JSON, objects of 2 KB";
    rows.add(row, ours, "bytes", &format!("{theirs:.2} bytes"), Goal::AtMost(1.15));
    let starts = (pair.ours.restart().as_secs_f64(), pair.theirs.restart().as_secs_f64());
    let row = format!("from the start until ready with {} objects", plan.stored);
    beside(rows, &row, starts, "s", Goal::AtMost(3.0));
    pair.stop();
}

impl Pair {
    fn resident(&mut self) -> (f64, f64) {
        (self.ours.resident(), self.theirs.resident())
    }
}

/// Installs `count` definitions of a middling size, and waits until the last is established and served.
fn define(server: &Server, count: usize) {
    for n in 0..count {
        server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition(n));
    }
    let wire = server.wires(1).remove(0);
    let path = format!("/apis/bench{}.example.com/v1/things{}", count - 1, count - 1);
    eventually("the last definition", std::time::Duration::from_secs(120), || {
        let answer = runtime().block_on(wire.call(Method::GET, &path, Bytes::new()));
        so(answer.is_ok(), || format!("{:?}", answer.as_ref().err()))
    });
}

/// A group of its own each, 40 fields with texts, as operators bring them.
fn definition(n: usize) -> Value {
    let field = |name: &str| {
        json!({"type": "object", "description": format!("What is known of {name}, in a sentence of the usual length of such."),
        "properties": {
            "name": {"type": "string", "maxLength": 63, "description": "The name that it goes by in the outside world."},
            "replicas": {"type": "integer", "minimum": 0, "default": 1, "description": "How many there shall be."},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}, "value": {"type": "string"}}}},
        }})
    };
    let fields: serde_json::Map<String, Value> =
        (0..10).map(|f| (format!("part{f}"), field(&format!("part {f}")))).collect();
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{n}.bench{n}.example.com")},
        "spec": {
            "group": format!("bench{n}.example.com"), "scope": "Namespaced",
            "names": {"plural": format!("things{n}"), "singular": format!("thing{n}"), "kind": format!("Thing{n}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields}, "status": status,
                }}},
            }],
        },
    })
}

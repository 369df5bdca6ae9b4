//! Small requests that would make something large: each ends in time, with an answer, and in bounded memory.
//!
//! Joined to the tests of identities, since whoever may write one object may try: the memory is this process's, which other
//! tests use as well, so that its bounds are wide.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{HOUR, Https, World};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
/// What one request may add to the memory of the process at its height, beside what other tests do meanwhile.
const MOST_MEMORY: u64 = 700 << 20;
/// How long one request may take in a build that is not optimised, on a machine that does other things.
const LONGEST: Duration = Duration::from_secs(30);

/// Kilobytes of `/proc/self/status`.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|found| found.starts_with(line)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

struct Small {
    world: World,
    https: Https,
}

impl Small {
    async fn start() -> Small {
        let world = World::start().await;
        let https = world.https(Some(&world.administrator(HOUR))).await;
        Small { world, https }
    }

    /// Sends a request of at most 64 KiB; its answer comes in time and within bounds.
    async fn send(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        assert!(body.len() + path.len() <= 64 << 10, "a small request");
        // The height of what is used counts from here.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (before, started) = (memory("VmRSS"), Instant::now());
        let answer = self.https.send_body(method, path, &[("content-type", kind)], body).await;
        let (took, grew) = (started.elapsed(), memory("VmHWM").saturating_sub(before));
        assert!(took < LONGEST, "{method} {path}: {took:?}");
        assert!(grew < MOST_MEMORY, "{method} {path}: {grew} bytes");
        answer
    }

    async fn create(&mut self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, JSON, object.to_string().as_bytes()).await
    }

    async fn map(&mut self, name: &str) {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        assert_eq!(self.create(MAPS, &map).await.0, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn field_managers_are_few_and_their_names_short() {
    let mut small = Small::start().await;
    small.map("m").await;
    for at in 0..40 {
        let (path, body) =
            (format!("{MAPS}/m?fieldManager=updater-{at}"), json!({"data": {format!("k{at}"): "v"}}));
        assert_eq!(small.send("PATCH", &path, MERGE, body.to_string().as_bytes()).await.0, 200);
    }
    let (_, map) = small.send("GET", &format!("{MAPS}/m"), JSON, b"").await;
    let managers = map["metadata"]["managedFields"].as_array().unwrap().len();
    assert!(managers <= 12, "{managers} managers are kept");
    let long = "x".repeat(50_000);
    for kind in [MERGE, APPLY] {
        let path = format!("{MAPS}/m?fieldManager={long}");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        let (status, told) = small.send("PATCH", &path, kind, body.to_string().as_bytes()).await;
        assert!(status == 400 || status == 422, "{status} {told}");
        assert!(told.to_string().len() < 200_000, "the refusal is not larger than what was sent");
    }
}

/// Each applier owns what it applied: what the object holds of them all ends where an object does.
#[tokio::test(flavor = "multi_thread")]
async fn what_appliers_own_of_an_object_ends_where_an_object_does() {
    let mut small = Small::start().await;
    small.map("m").await;
    let data: serde_json::Map<String, Value> =
        (0..240).map(|at| (format!("{at:0>240}"), json!("v"))).collect();
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}).to_string();
    let mut largest = 0;
    for at in 0..120 {
        let path = format!("{MAPS}/m?fieldManager=applier-{at}&force=true");
        let (status, answer) = small.send("PATCH", &path, APPLY, body.as_bytes()).await;
        largest = largest.max(answer.to_string().len());
        if status == 413 {
            assert!(largest <= 4 << 20, "{largest}");
            return;
        }
        assert_eq!(status, 200, "{answer}");
    }
    panic!("an object of {largest} bytes is not too large");
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_field_sets_and_paths_are_refused() {
    let mut small = Small::start().await;
    small.map("m").await;
    let deep =
        |open: &str, close: &str, levels: usize| format!("{}{}", open.repeat(levels), close.repeat(levels));
    let fields = deep("{\"f:a\":", "}", 7000).replace(":}", ":{}}");
    let managed = format!(
        r#"{{"metadata":{{"managedFields":[{{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}]}}}}"#
    );
    let (status, told) = small.send("PATCH", &format!("{MAPS}/m"), MERGE, managed.as_bytes()).await;
    assert!((400..500).contains(&status), "{status} {told}");
    let path = "/a".repeat(20_000);
    let patch = json!([{"op": "add", "path": path, "value": 1}]).to_string();
    let (status, told) =
        small.send("PATCH", &format!("{MAPS}/m"), "application/json-patch+json", patch.as_bytes()).await;
    assert!((400..500).contains(&status), "{status} {told}");
    let yaml = "&a [".repeat(5000);
    let (status, told) =
        small.send("PATCH", &format!("{MAPS}/m?fieldManager=f"), APPLY, yaml.as_bytes()).await;
    assert!((400..500).contains(&status), "{status} {told}");
    // Each line names the one before it nine times.
    let mut bomb =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nx0: &x0 [a,a,a,a,a,a,a,a,a]\n".to_owned();
    for at in 1..12 {
        bomb.push_str(&format!("x{at}: &x{at} [{}]\n", vec![format!("*x{}", at - 1); 9].join(",")));
    }
    let (status, told) =
        small.send("PATCH", &format!("{MAPS}/m?fieldManager=f"), APPLY, bomb.as_bytes()).await;
    assert!((400..500).contains(&status), "{status} {told}");
}

/// Nothing that comes is unpacked: a body that says that it is packed is no JSON.
#[tokio::test(flavor = "multi_thread")]
async fn a_packed_body_is_not_unpacked() {
    use std::io::Write as _;
    let mut small = Small::start().await;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..40 {
        packer.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    packer.write_all(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"packed"}}"#).unwrap();
    let packed = packer.finish().unwrap();
    let headers = [("content-type", JSON), ("content-encoding", "gzip")];
    let before = memory("VmRSS");
    let (status, told) = small.https.send_body("POST", MAPS, &headers, &packed).await;
    assert!((400..500).contains(&status), "{status} {told}");
    assert!(memory("VmHWM").saturating_sub(before) < MOST_MEMORY);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_selectors_are_refused_or_answered() {
    let mut small = Small::start().await;
    for at in 0..50 {
        small.map(&format!("m{at}")).await;
    }
    let many: Vec<String> = (0..2500).map(|at| format!("key-{at}!=v{at}")).collect();
    let values: Vec<String> = (0..5000).map(|at| format!("v{at}")).collect();
    let selectors = [
        format!("labelSelector={}", many.join(",")),
        format!("labelSelector=a%20notin%20({})", values.join(",")),
        format!("labelSelector={}", "(".repeat(30_000)),
        format!("labelSelector={}", "!".repeat(30_000)),
        format!("fieldSelector={}", vec!["metadata.name!=x"; 1500].join(",")),
    ];
    for selector in &selectors {
        let (status, told) = small.send("GET", &format!("{MAPS}?{selector}"), JSON, b"").await;
        assert!(status == 200 || (400..500).contains(&status), "{status} {}", &told.to_string()[..200]);
    }
    let paths = format!("{MAPS}/{}", "a/".repeat(15_000));
    let (status, _) = small.send("GET", &paths, JSON, b"").await;
    assert!((400..500).contains(&status), "{status}");
}

/// Strings that double by each variable of a policy end at the budget of expressions.
#[tokio::test(flavor = "multi_thread")]
async fn strings_of_expressions_end_at_their_budget() {
    let mut small = Small::start().await;
    let mut variables = vec![json!({"name": "v0", "expression": "'0123456789abcdef'"})];
    for at in 1..60 {
        let before = at - 1;
        variables.push(json!({"name": format!("v{at}"), "expression": format!("variables.v{before} + variables.v{before}")}));
    }
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]});
    let lists = "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, \
                 [1,2,3,4,5,6,7,8,9].map(d, [1,2,3,4,5,6,7,8,9].map(e, [1,2,3,4,5,6,7,8,9].map(f, 'text'))))))";
    for (name, expression) in [
        ("doubled", "size(variables.v59) > 0".to_owned()),
        ("joined", format!("size({lists}) > 0")),
        ("replaced", "size(variables.v12.replace('', variables.v12)) > 0".to_owned()),
        ("split", "size(variables.v14.split('').map(x, variables.v14)) > 0".to_owned()),
        (
            "formatted",
            "size('%s%s%s%s'.format([variables.v20, variables.v20, variables.v20, variables.v20])) > 0"
                .to_owned(),
        ),
    ] {
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "variables": variables,
                "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}});
        let (status, told) = small.create(policies, &policy).await;
        if status == 422 {
            // Too costly by what is known of it before it runs.
            continue;
        }
        assert_eq!(status, 201, "{told}");
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        assert_eq!(small.create(bindings, &binding).await.0, 201);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
        let mut refused = false;
        for _ in 0..20 {
            let (status, told) = small.create(MAPS, &map).await;
            refused = status != 201;
            assert!(
                status == 201 || status == 422 || status == 403 || status == 500,
                "{name}: {status} {told}"
            );
            assert!(told.to_string().len() < 100_000, "{name}");
            if refused {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(refused || name != "doubled", "{name}: it is never too much");
        for (path, what) in [(bindings, name), (policies, name)] {
            small.send("DELETE", &format!("{path}/{what}"), JSON, b"").await;
        }
    }
    assert!(small.world.cluster("none").is_none(), "the hub is there all the same");
}

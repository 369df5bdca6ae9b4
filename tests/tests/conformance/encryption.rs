//! A hub that encrypts what it stores: what was in clear leaves no trace, keys are rotated while it runs, what it cannot read is an
//! error and nothing more, and a key management service may come and go.

mod interop;
mod plugin;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;
use tests::folder::Folder;
use tests::hub::{Hub, HubOptions};
use tests::subject::is_hub;
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::{Caller, short};
use plugin::Plugin;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-far/works";
const MARKER: &str = "a-password-that-nobody-is-to-read";

/// A key of 32 bytes.
fn key(number: u8) -> String {
    STANDARD.encode([number; 32])
}

fn write_private(file: &Path, text: &str) {
    use std::io::Write as _;
    let staged = file.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut open = options.create(true).write(true).truncate(true).mode(0o600).open(&staged).unwrap();
    open.write_all(text.as_bytes()).unwrap();
    std::fs::rename(staged, file).unwrap();
}

/// Secrets under these providers.
fn configure(file: &Path, providers: &[String]) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [{}]\n",
        providers.join(", ")
    );
    write_private(file, &text);
}

fn keyed(provider: &str, keys: &[u8]) -> String {
    let keys: Vec<String> =
        keys.iter().map(|n| format!("{{name: key{n}, secret: \"{}\"}}", key(*n))).collect();
    format!("{{{provider}: {{keys: [{}]}}}}", keys.join(", "))
}

fn identity() -> String {
    "{identity: {}}".into()
}

fn args(file: &Path) -> Vec<String> {
    let file = file.display();
    vec![
        format!("--encryption-provider-config={file}"),
        "--encryption-provider-config-automatic-reload".into(),
    ]
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": STANDARD.encode(MARKER)}})
}

fn version(object: &Value) -> &str {
    text_at(object, "/metadata/resourceVersion")
}

/// Files of the store that hold the marker, as it is written in an object.
fn traces(hub: &Hub) -> Vec<PathBuf> {
    let marker = STANDARD.encode(MARKER);
    let files = std::fs::read_dir(hub.data_dir()).unwrap().map(|entry| entry.unwrap().path());
    let holds = |file: &PathBuf| {
        let content = std::fs::read(file).unwrap_or_default();
        content.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    files.filter(|file| file.is_file() && holds(file)).collect()
}

fn metric(caller: &Caller, name: &str) -> f64 {
    let page = caller.get("/metrics").is(200).text;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn await_metric(caller: &Caller, name: &str, is: impl Fn(f64) -> bool) {
    eventually(name, TIMEOUT, || {
        let value = metric(caller, name);
        so(is(value), || value.to_string())
    });
}

const CURRENT: &str = "karmada_hub_encryption_current";
const REWRITTEN: &str = "karmada_hub_encryption_rewritten_total";
const TAKEN: &str = "apiserver_encryption_config_controller_automatic_reloads_total{status=\"success\"}";
const REFUSED: &str = "apiserver_encryption_config_controller_automatic_reloads_total{status=\"failure\"}";

#[test]
fn what_was_in_clear_is_encrypted_and_keys_are_rotated_and_no_trace_is_left() {
    if !is_hub() {
        return;
    }
    let folder = Folder::new("encryption");
    let file = folder.join("encryption.yaml");
    let mut hub = Hub::start(HubOptions::default());
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    caller.post("/api/v1/namespaces", &json!({"metadata": {"name": "karmada-es-far"}}));
    let mut kept = caller.post(SECRETS, &secret("kept")).is(201).json();
    for n in 0..50 {
        caller.post(SECRETS, &secret(&format!("gone-{n}"))).is(201);
        let patch = json!({"metadata": {"annotations": {"n": n.to_string()}}}).to_string();
        let merge = [("content-type", "application/merge-patch+json")];
        kept = caller.send(Method::PATCH, &format!("{SECRETS}/kept"), &merge, patch).is(200).json();
        caller.send(Method::DELETE, &format!("{SECRETS}/gone-{n}"), &[], "").is(200);
    }
    let mut manifest = secret("carried");
    manifest["apiVersion"] = json!("v1");
    manifest["kind"] = json!("Secret");
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "carrier"}, "spec": {"workload": {"manifests": [manifest]}}});
    let work = caller.post(WORKS, &work).is(201).json();
    assert!(!traces(&hub).is_empty(), "in clear");

    configure(&file, &[keyed("aescbc", &[1]), identity()]);
    hub.options().args = args(&file);
    hub.stop();
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    await_metric(&caller, CURRENT, |value| value == 1.0);
    assert_eq!(traces(&hub), Vec::<PathBuf>::new());
    assert!(metric(&caller, REWRITTEN) > 100.0, "history, too");
    assert_eq!(caller.get(&format!("{SECRETS}/kept")).is(200).json(), kept, "nobody's version moved");
    let now = caller.get(&format!("{WORKS}/carrier")).is(200).json();
    assert_eq!(now["spec"], work["spec"]);

    // Another key comes while the hub runs, and the older one goes at once.
    let watch =
        caller.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", version(&caller.get(SECRETS).json())));
    configure(&file, &[keyed("aesgcm", &[2])]);
    await_metric(&caller, TAKEN, |value| value == 1.0);
    await_metric(&caller, CURRENT, |value| value == 1.0);
    caller.post(SECRETS, &secret("later")).is(201);
    assert_eq!(short(&watch.next()), "ADDED later", "rewriting is no change to anybody");
    // A file that is wrong changes nothing.
    write_private(&file, "kind: Nonsense");
    await_metric(&caller, REFUSED, |value| value >= 1.0);
    caller.post(SECRETS, &secret("last")).is(201);
    assert_eq!(traces(&hub), Vec::<PathBuf>::new());
    configure(&file, &[keyed("aesgcm", &[2])]);
    hub.kill();
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    assert_eq!(caller.get(&format!("{SECRETS}/kept")).is(200).json(), kept);
    for name in ["later", "last"] {
        assert_eq!(caller.get(&format!("{SECRETS}/{name}")).is(200).json()["data"], secret(name)["data"]);
    }
}

#[test]
fn what_no_key_reads_is_an_error_and_the_rest_is_served() {
    if !is_hub() {
        return;
    }
    let folder = Folder::new("encryption");
    let file = folder.join("encryption.yaml");
    configure(&file, &[keyed("secretbox", &[1])]);
    let mut hub = Hub::start(HubOptions { args: args(&file), ..HubOptions::default() });
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    caller.post(SECRETS, &secret("mine")).is(201);
    let maps = "/api/v1/namespaces/default/configmaps";
    caller.post(maps, &json!({"metadata": {"name": "other"}})).is(201);
    assert_eq!(traces(&hub), Vec::<PathBuf>::new());
    hub.stop();
    for args in [args(&file), Vec::new()] {
        // The wrong key, and none.
        configure(&file, &[keyed("secretbox", &[2]).replace("key2", "key1")]);
        hub.options().args = args;
        hub.start_again();
        let caller = Caller::of_kubeconfig(&hub.kubeconfig());
        for path in [format!("{SECRETS}/mine"), SECRETS.to_owned()] {
            let refused = caller.get(&path);
            assert_eq!(refused.code, 500, "{}", refused.text);
            assert!(refused.text.contains("k8s:enc:secretbox:v1:key1"), "{}", refused.text);
        }
        assert_eq!(caller.post(SECRETS, &secret("mine")).code, 409, "it is not gone");
        caller.get(&format!("{maps}/other")).is(200);
        caller.get(maps).is(200);
        assert!(metric(&caller, "karmada_hub_unreadable_objects") >= 1.0);
        hub.stop();
    }
    configure(&file, &[keyed("secretbox", &[1])]);
    hub.options().args = args(&file);
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    assert_eq!(caller.get(&format!("{SECRETS}/mine")).is(200).json()["data"], secret("mine")["data"]);
}

#[test]
fn a_key_management_service_is_waited_for_told_of_and_may_change_its_key() {
    if !is_hub() {
        return;
    }
    let folder = Folder::new("encryption");
    let (file, socket) = (folder.join("encryption.yaml"), folder.join("kms.sock"));
    let endpoint = socket.display();
    configure(
        &file,
        &[format!("{{kms: {{apiVersion: v2, name: house, endpoint: \"unix://{endpoint}\"}}}}"), identity()],
    );
    let options = HubOptions { args: args(&file), ..HubOptions::default() };
    tests::built::program("karmada-hub");
    let starting = std::thread::spawn(|| Hub::start(options));
    std::thread::sleep(Duration::from_secs(5));
    assert!(!starting.is_finished(), "nothing is served without it");
    let plugin = Plugin::start(&socket);
    let mut hub = starting.join().unwrap();
    let log = std::fs::read_to_string(hub.process().unwrap().log()).unwrap();
    assert!(log.contains("waiting for what encrypts the store"), "{log}");
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    let made = caller.post(SECRETS, &secret("mine")).is(201).json();
    assert_eq!(traces(&hub), Vec::<PathBuf>::new());
    await_metric(&caller, CURRENT, |value| value == 1.0);

    plugin.is("out of order");
    let ready = |code: u16, words: &str| {
        eventually(words, TIMEOUT, || {
            let answer = caller.get("/readyz");
            so(answer.code == code && answer.text.contains(words), || answer.text.clone())
        });
    };
    ready(500, "[-]kms-providers failed: ");
    ready(500, "out of order");
    caller.get(&format!("{SECRETS}/mine")).is(200);
    // For a while it is written with what the service has encrypted already.
    caller.post(SECRETS, &secret("meanwhile")).is(201);
    plugin.is("ok");
    ready(200, "ok");

    let before = metric(&caller, REWRITTEN);
    plugin.use_key(2);
    await_metric(&caller, REWRITTEN, |value| value > before);
    await_metric(&caller, CURRENT, |value| value == 1.0);
    plugin.forget_before(2);
    hub.kill();
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    await_metric(&caller, CURRENT, |value| value == 1.0);
    assert!(
        metric(&caller, REWRITTEN) == 0.0,
        "what another start wrote under the same key is as it is to be"
    );
    assert_eq!(caller.get(&format!("{SECRETS}/mine")).is(200).json(), made);
    caller.get(&format!("{SECRETS}/meanwhile")).is(200);
}

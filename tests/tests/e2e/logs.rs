//! What an agent and karmadactl log: for collectors an object of JSON a line, never a secret, and little while somebody is away.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{await_gone, await_object, karmadactl};
use crate::private_site::{Line, WORKS};

const PASSWORD: &str = "correct-horse-battery-staple";
/// How long somebody is away.
const OUTAGE: Duration = Duration::from_secs(20);
/// Lines of such an outage at most: "some a minute".
const FEW: usize = 10;

/// The kinds that the site watches, each with objects of its own.
const KINDS: [(&str, &str, &str); 6] = [
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "Service", "services"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("apps/v1", "Deployment", "deployments"),
    ("batch/v1", "CronJob", "cronjobs"),
];

fn manifest(api_version: &str, kind: &str, name: &str) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx"}]});
    match kind {
        "Secret" => object["stringData"] = json!({"password": PASSWORD}),
        "Service" => object["spec"] = json!({"ports": [{"port": 80}]}),
        "Deployment" => {
            let labels = json!({"app": name});
            let pod = json!({"containers": [{"name": "main", "image": "nginx"}]});
            object["spec"] = json!({"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod}});
        }
        "CronJob" => {
            object["spec"] =
                json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}});
        }
        _ => {}
    }
    object
}

/// Places `count` objects of each kind, each by a Work.
fn place(line: &Line, name: &str, count: usize) {
    for (api_version, kind, plural) in KINDS {
        for at in 0..count {
            let object = manifest(api_version, kind, &format!("{name}-{at}"));
            let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {"name": format!("{plural}-{name}-{at}")}, "spec": {"workload": {"manifests": [object]}}});
            line.hub.api().create(WORKS, &work).unwrap();
        }
    }
}

/// Everything that the agent wrote, over all its starts.
fn written(line: &mut Line) -> Vec<String> {
    let process = line.agent.process().unwrap();
    process.alive().unwrap();
    let text = std::fs::read_to_string(process.log()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Each line is an object with a time, a level and words, and none tells a secret.
#[track_caller]
fn fit_for_collectors(lines: &[String], secrets: &[String]) {
    for line in lines {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(["timestamp", "level", "target"].iter().all(|field| object[field].is_string()), "{line}");
        // As the hub's: what is said stands at the top.
        assert!(
            object["fields"].is_null() && object["span"].is_null() && object["spans"].is_null(),
            "{line}"
        );
        for secret in secrets {
            assert!(!line.contains(secret.as_str()), "{line}");
        }
    }
}

fn secrets(line: &Line) -> Vec<String> {
    let identity = std::fs::read_to_string(line.agent.state_dir().join("identity.json")).unwrap();
    let identity: Value = serde_json::from_str(&identity).unwrap();
    let keys = identity.as_object().unwrap().values().filter_map(Value::as_str);
    let keys = keys.filter(|text| text.contains("PRIVATE KEY"));
    let mut secrets: Vec<String> = keys
        .flat_map(str::lines)
        .filter(|part| part.len() > 30 && !part.starts_with('-'))
        .map(str::to_owned)
        .collect();
    assert!(!secrets.is_empty(), "the identity has a key");
    secrets.extend([PASSWORD.to_owned(), STANDARD.encode(PASSWORD), line.token[7..].to_owned()]);
    secrets
}

#[test]
fn an_agents_lines_are_json_and_few_while_its_hub_or_its_member_is_away() {
    let Some(mut line) = Line::start() else { return };
    line.agent.stop();
    let before = written_by_text(&line).len();
    line.agent.options().args.extend(["--log-format", "json"].map(str::to_owned));
    line.agent.start_again();
    place(&line, "stays", 4);
    place(&line, "goes", 4);
    let at = |plural: &str, name: &str| match plural {
        "deployments" => format!("/apis/apps/v1/namespaces/default/deployments/{name}"),
        "cronjobs" => format!("/apis/batch/v1/namespaces/default/cronjobs/{name}"),
        _ => format!("/api/v1/namespaces/default/{plural}/{name}"),
    };
    for (_, _, plural) in KINDS {
        await_object(line.member.api(), "the member", &at(plural, "goes-3"), |_| Ok(()));
    }

    line.hub.stop();
    let lines = written(&mut line).len();
    std::thread::sleep(OUTAGE);
    let of_the_hub = written(&mut line).split_off(lines);
    println!("without the hub:\n{}", of_the_hub.join("\n"));
    line.hub.start_again();
    // One that waits before it dials again dials at once when it is started.
    line.agent.start_again();
    eventually("the agent to be back", TIMEOUT, || {
        let back =
            written(&mut line).iter().skip(lines).any(|said| said.contains("\"message\":\"connected\""));
        so(back, || "it is not connected".to_owned())
    });

    let lines = written(&mut line).len();
    line.member.kill_apiserver();
    // With work to do there, and things to remove.
    for (_, _, plural) in KINDS {
        (0..4).for_each(|at| line.delete(&format!("{plural}-goes-{at}")));
    }
    place(&line, "comes", 4);
    std::thread::sleep(OUTAGE);
    let of_the_member = written(&mut line).split_off(lines);
    println!("without the member:\n{}", of_the_member.join("\n"));
    line.member.start_apiserver();
    for (_, _, plural) in KINDS {
        await_gone(line.member.api(), "the member", &at(plural, "goes-3"));
        await_object(line.member.api(), "the member", &at(plural, "comes-3"), |_| Ok(()));
    }

    let all = written(&mut line).split_off(before);
    fit_for_collectors(&all, &secrets(&line));
    assert!(!of_the_hub.is_empty() && of_the_hub.len() <= FEW, "{}: {of_the_hub:#?}", of_the_hub.len());
    assert!(
        !of_the_member.is_empty() && of_the_member.len() <= FEW,
        "{}: {of_the_member:#?}",
        of_the_member.len()
    );
}

/// The lines of the starts before the one that writes JSON.
fn written_by_text(line: &Line) -> Vec<String> {
    let log = line.agent.folder().join("karmada-agent.log");
    std::fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn an_agent_that_tells_everything_tells_no_secret() {
    let Some(mut line) = Line::start() else { return };
    line.agent.stop();
    let before = written_by_text(&line).len();
    line.agent.options().args.extend(["--log-format", "json", "--log", "trace"].map(str::to_owned));
    line.agent.start_again();
    place(&line, "told", 1);
    await_object(line.member.api(), "the member", "/api/v1/namespaces/default/secrets/told-0", |_| Ok(()));
    let kubeconfig = line.hub.kubeconfig();
    let told = karmadactl(&kubeconfig, &["get", "clusters", "--log", "trace", "--log-format", "json"]);
    assert!(told.status.success(), "{told}");
    let lines: Vec<String> = told.stderr.lines().map(str::to_owned).collect();
    assert!(!lines.is_empty(), "it tells of its requests");
    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let key = config["users"][0]["user"]["client-key-data"].as_str().unwrap().to_owned();
    fit_for_collectors(&lines, &[key]);
    let all = written(&mut line).split_off(before);
    fit_for_collectors(&all, &secrets(&line));
}

/// A command says in one line what was not reached, however it logs.
#[test]
fn karmadactl_tells_once_that_nobody_answers() {
    let Some(line) = Line::start() else { return };
    let closed = format!("https://127.0.0.1:{}", tests::ports::reserve());
    let mut config: Value =
        serde_json::from_str(&std::fs::read_to_string(line.hub.kubeconfig()).unwrap()).unwrap();
    config["clusters"][0]["cluster"]["server"] = json!(closed);
    let file = line.folder.join("closed.kubeconfig");
    std::fs::write(&file, config.to_string()).unwrap();
    for format in ["text", "json"] {
        let refused = karmadactl(&file, &["get", "clusters", "--log-format", format]).refused();
        let lines: Vec<&str> = refused.lines().collect();
        assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{refused}");
    }
}

//! Every door of the hub, tried with every key that is not the administrator's: an agent's certificate, a join
//! token, an expired certificate, none. What opens is the agent's own Cluster, its own Works, its own stream, and
//! what Kubernetes lets any client see.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::Timestamp;
use karmada_agent::link::dial::{Tcp, dial};
use karmada_certs::{
    Authority, CertificateRequest, ClientKey, KeyedCertificate, Trust, agent_subject, client_config_h2,
};
use karmada_proto::v1::{
    AgentFrame, CloseCode, Hello, JoinRefusalCode, JoinRequest, agent_frame, hub_frame, join_reply,
};
use serde_json::{Value, json};
use tests::api::{Api, code, text_at};
use tests::runtime;

use crate::fleet::{Fleet, Site, get, shared};

/// The agent's certificate and key, as the agent keeps them.
fn identity(site: &Site) -> KeyedCertificate {
    let file = site.agent.state_dir().join("identity.json");
    let identity: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    KeyedCertificate {
        certificate_pem: text_at(&identity, "/certificate").to_owned(),
        key_pem: text_at(&identity, "/key").to_owned(),
    }
}

/// A certificate for north's agent from the hub's own CA that ended an hour ago.
fn expired(fleet: &Fleet) -> KeyedCertificate {
    let now = Timestamp::now();
    let authority = Authority::load_or_create(&fleet.hub.data_dir().join("pki"), now).unwrap();
    let (key, subject) = (ClientKey::generate().unwrap(), agent_subject("north"));
    let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
    let past = now - jiff::SignedDuration::from_hours(72);
    let certificate = authority.issue_client(&subject, &request, Duration::from_secs(3600), past).unwrap();
    key.with_certificate(certificate)
}

/// A certificate from the hub's own CA with a key that no join was granted for: as the key of an agent that has
/// joined anew since.
fn ungranted(fleet: &Fleet, cluster: &str) -> KeyedCertificate {
    let now = Timestamp::now();
    let authority = Authority::load_or_create(&fleet.hub.data_dir().join("pki"), now).unwrap();
    authority.issue_client_with_key(&agent_subject(cluster), Duration::from_secs(3600), now).unwrap()
}

/// A client of the hub with this `user` of a kubeconfig.
fn client(fleet: &Fleet, name: &str, user: &Value) -> Api {
    let admin: Value = serde_json::from_slice(&std::fs::read(fleet.hub.kubeconfig()).unwrap()).unwrap();
    let mut config = admin;
    config["users"][0]["user"] = user.clone();
    let file: PathBuf = fleet.folder.join(format!("{name}.kubeconfig"));
    std::fs::write(&file, config.to_string()).unwrap();
    Api::from_kubeconfig(&file).unwrap()
}

fn by_certificate(certificate: &KeyedCertificate) -> Value {
    json!({
        "client-certificate-data": STANDARD.encode(&certificate.certificate_pem),
        "client-key-data": STANDARD.encode(&certificate.key_pem),
    })
}

/// One way to knock.
type Door = (Method, String);
/// Whether a door opens.
type May = dyn Fn(&Door) -> bool + Sync;

/// Every verb at every resource that the hub serves, in the namespaces of two sites and in none.
fn doors(fleet: &Fleet) -> Vec<Door> {
    let api = fleet.hub.api();
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = get(api, "/apis").unwrap();
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!("/apis/{}", text_at(version, "/groupVersion")));
        }
    }
    let mut doors = Vec::new();
    for root in roots {
        for resource in get(api, &root).unwrap()["resources"].as_array().unwrap() {
            let (name, sub) = match text_at(resource, "/name").split_once('/') {
                Some((name, sub)) => (name.to_owned(), format!("/{sub}")),
                None => (text_at(resource, "/name").to_owned(), String::new()),
            };
            let places = match resource["namespaced"] == true {
                true => vec![
                    "/namespaces/karmada-es-north",
                    "/namespaces/karmada-es-south",
                    "/namespaces/kube-system",
                ],
                false => vec![""],
            };
            for place in places {
                let all = format!("{root}{place}/{name}");
                if sub.is_empty() {
                    for method in [Method::GET, Method::POST, Method::DELETE] {
                        doors.push((method, all.clone()));
                    }
                }
                for one in ["north", "south"] {
                    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
                        // A subresource is not deleted.
                        if sub.is_empty() || method != Method::DELETE {
                            doors.push((method, format!("{all}/{one}{sub}")));
                        }
                    }
                }
            }
            if resource["namespaced"] == true && sub.is_empty() {
                doors.push((Method::GET, format!("{root}/{name}")));
            }
        }
    }
    doors.push((Method::GET, "/metrics".to_owned()));
    doors.push((Method::GET, "/logs".to_owned()));
    doors
}

/// What everybody with a name may ask about himself.
fn is_about_oneself((method, path): &Door) -> bool {
    *method == Method::POST
        && ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"]
            .iter()
            .any(|name| path.ends_with(name))
}

fn may_nothing(_: &Door) -> bool {
    false
}

/// The HTTP status that a knock gets; 0 where there is no answer.
fn knock(api: &Api, (method, path): &Door) -> u16 {
    let (content_type, body) = match *method {
        Method::PATCH => ("application/merge-patch+json", Some(json!({}))),
        // A delete that were let through would be one: of nothing, by a precondition that nothing meets.
        Method::DELETE => ("application/json", Some(json!({"preconditions": {"uid": "none"}}))),
        Method::GET => ("application/json", None),
        // Of a version that is long past: what is let through changes nothing.
        _ => ("application/json", Some(json!({"metadata": {"resourceVersion": "1"}}))),
    };
    match api.send(method.clone(), path, content_type, body.as_ref()) {
        Ok(_) => 200,
        Err(error) => code(&error).unwrap_or(0),
    }
}

#[test]
fn every_route_opens_to_its_own_key_alone() {
    let Some(fleet) = shared() else { return };
    let (north, south) = (identity(fleet.site("north")), identity(fleet.site("south")));
    let doors = doors(&fleet);
    assert!(doors.len() > 800, "{} doors", doors.len());
    let north = client(&fleet, "as-north", &by_certificate(&north));
    let south = client(&fleet, "as-south", &by_certificate(&south));
    let token = client(&fleet, "as-token", &json!({"token": fleet.register.token}));
    let nobody = client(&fleet, "as-nobody", &json!({}));
    let forged = client(&fleet, "as-forged", &by_certificate(&ungranted(&fleet, "north")));
    let past = client(&fleet, "as-past", &by_certificate(&expired(&fleet)));
    // Who, with what, at each how manieth door, may what, and is refused otherwise.
    let table: [(&str, &Api, usize, &May, &[u16]); 6] = [
        // An agent's certificate opens its stream alone.
        ("north", &north, 1, &may_nothing, &[401]),
        ("south", &south, 3, &may_nothing, &[401]),
        ("a join token", &token, 1, &is_about_oneself, &[403, 405]),
        ("nobody", &nobody, 3, &may_nothing, &[401, 403, 405]),
        ("a key that was not granted", &forged, 3, &may_nothing, &[401]),
        // TLS refuses it before there is a route, and the client tries each again and again.
        ("an expired certificate", &past, 150, &may_nothing, &[0, 401]),
    ];
    let try_all = |(who, api, step, may, refused): (&str, &Api, usize, &May, &[u16])| {
        let mut wrong = Vec::new();
        for door in doors.iter().step_by(step) {
            let answer = knock(api, door);
            // What may be done is not refused for who asks; whether the object is there is another matter.
            let right = if may(door) { ![0, 401, 403].contains(&answer) } else { refused.contains(&answer) };
            if !right {
                wrong.push(format!("{who}: {} {} → {answer}", door.0, door.1));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let try_all = &try_all;
        let tries: Vec<_> = table.into_iter().map(|row| scope.spawn(move || try_all(row))).collect();
        tries.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), doors.len(), wrong.join("\n"));

    for path in ["/healthz", "/readyz", "/livez", "/version"] {
        assert!(nobody.text(path).is_ok(), "{path} is for everybody");
    }
    for path in ["/api", "/apis", "/openapi/v3"] {
        assert!(token.text(path).is_ok(), "{path} is for everybody with a name");
        assert!(north.text(path).is_err(), "{path} is not for an agent's certificate");
    }
}

/// What the stream's door says to a certificate and the name in its hello.
fn connect(fleet: &Fleet, certificate: Option<&KeyedCertificate>, cluster: &str) -> String {
    let authority = Authority::load_or_create(&fleet.hub.data_dir().join("pki"), Timestamp::now()).unwrap();
    let trust = Trust::Bundle(authority.certificate_pem().to_owned());
    let config = client_config_h2(&trust, certificate).unwrap();
    let endpoint = fleet.hub.address().to_string();
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_name: cluster.to_owned(),
        boot_id: "somebody else".to_owned(),
        ..Hello::default()
    };
    let frame = AgentFrame { body: Some(agent_frame::Body::Hello(hello)), ..AgentFrame::default() };
    let knock = async {
        let mut client = match dial(&Tcp, &endpoint, config).await {
            Ok(client) => client,
            Err(error) => return format!("dial: {error}"),
        };
        // The stream stays open: an agent that says hello waits for its welcome.
        let frames = futures::StreamExt::chain(futures::stream::iter([frame]), futures::stream::pending());
        let mut answers = match client.connect(frames).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return format!("{:?}", status.code()),
        };
        match answers.message().await {
            Ok(Some(frame)) => match frame.body {
                Some(hub_frame::Body::Close(close)) => {
                    CloseCode::try_from(close.code).unwrap().as_str_name().to_owned()
                }
                other => format!("{other:?}"),
            },
            Ok(None) => "the end".to_owned(),
            Err(status) => format!("{:?}", status.code()),
        }
    };
    let answered = runtime().block_on(async { tokio::time::timeout(Duration::from_secs(60), knock).await });
    answered.unwrap_or_else(|_| "no answer within 60 s".to_owned())
}

#[test]
fn the_stream_opens_to_its_own_key_alone() {
    let Some(fleet) = shared() else { return };
    let (north, south) = (identity(fleet.site("north")), identity(fleet.site("south")));
    let before = fleet.site("north").link.connections();
    assert_eq!(connect(&fleet, None, "north"), "Unauthenticated");
    let with_past = connect(&fleet, Some(&expired(&fleet)), "north");
    // TLS refuses it; how the client learns of that depends on who is faster.
    let cut = ["Cancelled", "Unavailable", "Unknown"].contains(&with_past.as_str());
    assert!(cut || with_past.starts_with("dial: "), "{with_past}");
    // Its key is south's, whatever the hello says.
    assert_eq!(connect(&fleet, Some(&south), "north"), "PROTOCOL");
    // North's key while north lives: a clone.
    assert_eq!(connect(&fleet, Some(&north), "north"), "CLONE");
    assert_eq!(connect(&fleet, Some(&ungranted(&fleet, "north")), "north"), "REVOKED");
    assert_eq!(connect(&fleet, Some(&ungranted(&fleet, "nowhere")), "nowhere"), "UNREGISTERED");
    assert_eq!(fleet.site("north").link.connections(), before, "north's own stream went on");
}

#[test]
fn a_join_needs_its_token_whatever_the_certificate() {
    let Some(fleet) = shared() else { return };
    let (north, endpoint) = (identity(fleet.site("north")), fleet.hub.address().to_string());
    let authority = Authority::load_or_create(&fleet.hub.data_dir().join("pki"), Timestamp::now()).unwrap();
    let trust = Trust::Bundle(authority.certificate_pem().to_owned());
    let now = Timestamp::now().as_millisecond();
    let hours = |n: i64| now + n * 3_600_000;
    let good = fleet.register.token.as_str();
    for (token, clock_ms, code) in [
        ("", now, JoinRefusalCode::TokenUnknown),
        ("abcdef.0123456789abcdef", now, JoinRefusalCode::TokenUnknown),
        ("no token", now, JoinRefusalCode::TokenUnknown),
        // A clock by which the certificates are not valid: told before anything is made.
        (good, hours(-2), JoinRefusalCode::ClockSkewed),
        (good, hours(2), JoinRefusalCode::ClockSkewed),
    ] {
        let config = client_config_h2(&trust, Some(&north)).unwrap();
        let key = ClientKey::generate().unwrap();
        let request = JoinRequest {
            token: token.to_owned(),
            cluster_name: "mine".to_owned(),
            cluster_uid: "mine".to_owned(),
            csr: key.request(&agent_subject("mine")).unwrap().into(),
            clock_ms,
            ..JoinRequest::default()
        };
        let reply = runtime().block_on(async {
            let mut client = dial(&Tcp, &endpoint, config).await.unwrap();
            client.join(request).await.unwrap().into_inner()
        });
        let Some(join_reply::Result::Refusal(refusal)) = reply.result else { panic!("{token}: {reply:?}") };
        assert_eq!(refusal.code(), code, "{token:?} at {clock_ms}");
    }
    let clusters = fleet.hub.api().list("/apis/cluster.karmada.io/v1alpha1/clusters").unwrap();
    assert!(clusters.iter().all(|cluster| cluster["metadata"]["name"] != "mine"), "{clusters:?}");
}

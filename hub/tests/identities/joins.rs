//! Joins: a name belongs to the key that holds it, a token is bounded, and an answer tells nothing of others.

use karmada_apiserver::audit::LogOptions;
use karmada_certs::ClientKey;
use karmada_hub::{Approval, AuditSettings};
use karmada_proto::v1::{CloseCode, JoinRefusalCode, JoinRequest};
use std::time::Duration;

use crate::world::{Answer, TOKEN, World, until};

const SECOND: Duration = Duration::from_secs(1);

fn key() -> ClientKey {
    ClientKey::generate().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_holds_a_name_is_not_replaced_by_a_token() {
    let world = World::start().await;
    let (owner, thief, other) = (key(), key(), key());
    let certificate = world.join("north", "u1", &owner).await.certificate(&owner);
    let before = world.cluster("north").unwrap();
    // With another uid, and with the holder's own: the same answer.
    let answers = [world.join("north", "u2", &thief).await, world.join("north", "u1", &other).await];
    assert_eq!(answers, [Answer::Pending, Answer::Pending]);
    let after = world.cluster("north").unwrap();
    assert_eq!(after["spec"]["id"], before["spec"]["id"]);
    assert_eq!(
        after["metadata"]["annotations"]["edge.karmada.io/agent-key"],
        before["metadata"]["annotations"]["edge.karmada.io/agent-key"]
    );
    let asked = after["metadata"]["annotations"]["edge.karmada.io/key-request"].as_str().unwrap();
    assert!(asked.contains(&thief.fingerprint()) && asked.contains(&other.fingerprint()), "{asked}");
    // The holder goes on, and is granted the name again: an answer may have been lost.
    world.connect(&certificate, "north").await.welcomed().await;
    world.join("north", "u1", &owner).await.certificate(&owner);
    // What the CA would sign for the thief opens nothing.
    let forged = world.issue("north", &thief, crate::world::HOUR);
    assert_eq!(world.connect(&forged, "north").await.closed_within(SECOND).await, Some(CloseCode::Revoked));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_holder_is_connected_another_key_is_refused_and_told_nothing() {
    let world = World::start().await;
    let (owner, thief) = (key(), key());
    let certificate = world.join("north", "uid-of-north", &owner).await.certificate(&owner);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    let answers =
        [world.join("north", "u2", &thief).await, world.join("north", "uid-of-north", &thief).await];
    assert_eq!(answers[0], answers[1], "the same words, whoever asks");
    let Answer::Refused(refusal) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!((refusal.code(), refusal.holder.as_str()), (JoinRefusalCode::NameTaken, ""));
    assert!(!refusal.message.contains("uid-of-north"), "{}", refusal.message);
    // The same member under another name: not told which.
    let Answer::Refused(refusal) = world.join("south", "uid-of-north", &thief).await else { panic!() };
    assert_eq!((refusal.code(), refusal.holder.as_str()), (JoinRefusalCode::ClusterTaken, ""));
    assert!(!refusal.message.contains("north"), "{}", refusal.message);
    assert!(world.cluster("south").is_none());
    // Whoever looks after the cluster hears of it.
    let told = || {
        let events = world.events("north", "JoinRefused");
        let count: i64 = events.iter().map(|event| event["count"].as_i64().unwrap_or(1)).sum();
        count == 3 && events.iter().all(|event| event["type"] == "Warning")
    };
    until("the refusals as events", told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_decides_which_key_holds() {
    let world = World::start().await;
    let (old, new, thief) = (key(), key(), key());
    let certificate = world.join("north", "u1", &old).await.certificate(&old);
    assert_eq!(world.join("north", "u2", &new).await, Answer::Pending);
    assert_eq!(world.join("north", "u3", &thief).await, Answer::Pending);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    world.annotate("north", "edge.karmada.io/refuse-key", &thief.fingerprint()).await;
    let decided = |note: &'static str| {
        let world = &world;
        until(note, move || world.cluster("north").unwrap()["metadata"]["annotations"][note].is_null())
    };
    decided("edge.karmada.io/refuse-key").await;
    assert_eq!(world.join("north", "u3", &thief).await.code(), Some(JoinRefusalCode::NameTaken));
    assert_eq!(world.join("north", "u2", &new).await, Answer::Pending, "nothing was said of this one");
    world.annotate("north", "edge.karmada.io/adopt-key", &new.fingerprint()).await;
    assert_eq!(session.closed_within(SECOND).await, Some(CloseCode::Revoked), "the old one is cut off");
    decided("edge.karmada.io/adopt-key").await;
    let certificate = world.join("north", "u2", &new).await.certificate(&new);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    assert_eq!(world.cluster("north").unwrap()["spec"]["id"], "u2");
    assert_eq!(world.join("north", "u1", &old).await.code(), Some(JoinRefusalCode::NameTaken));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_ask_at_once_one_gets_the_name() {
    let world = World::start().await;
    for round in 0..4 {
        let name = format!("site{round}");
        let (one, two) = (key(), key());
        let (uid1, uid2) = (format!("a{round}"), format!("b{round}"));
        let (a, b) = tokio::join!(world.join(&name, &uid1, &one), world.join(&name, &uid2, &two));
        let granted = [&a, &b].iter().filter(|answer| matches!(answer, Answer::Granted(_))).count();
        assert_eq!(granted, 1, "{a:?} {b:?}");
    }
    // One member under two names.
    let (one, two) = (key(), key());
    let (a, b) = tokio::join!(world.join("east", "same", &one), world.join("west", "same", &two));
    let granted = [&a, &b].iter().filter(|answer| matches!(answer, Answer::Granted(_))).count();
    assert_eq!(granted, 1, "{a:?} {b:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_bounded_in_number_in_time_and_to_its_name() {
    let world = World::start().await;
    let (few, fast, bound) =
        ("aaaaaa.0123456789abcdef", "bbbbbb.0123456789abcdef", "cccccc.0123456789abcdef");
    world.token(few, &[("uses-left", "2")]).await;
    world.token(fast, &[("joins-per-minute", "2")]).await;
    world.token(bound, &[("cluster-name", "mine")]).await;
    let send = async |token: &str, name: &str, uid: &str, key: &ClientKey| {
        world.send(world.ask(token, name, uid, key)).await
    };
    let one = key();
    // What fails does not use it up; what asks again for its own does not, either.
    assert_eq!(send(few, "Not_A_Name", "u", &one).await.code(), Some(JoinRefusalCode::NameInvalid));
    send(few, "few1", "f1", &one).await.certificate(&one);
    assert_eq!(send(few, "few2", "f1", &key()).await.code(), Some(JoinRefusalCode::ClusterTaken));
    send(few, "few1", "f1", &one).await.certificate(&one);
    assert_eq!(world.uses_left(few), "1");
    let two = key();
    send(few, "few2", "f2", &two).await.certificate(&two);
    assert_eq!(send(few, "few3", "f3", &key()).await.code(), Some(JoinRefusalCode::TokenUsedUp));
    send(few, "few2", "f2", &two).await.certificate(&two);
    // Four at once, and then it waits.
    for at in 0..4 {
        let key = key();
        send(fast, &format!("fast{at}"), &format!("x{at}"), &key).await.certificate(&key);
    }
    assert_eq!(send(fast, "fast4", "x4", &key()).await.code(), Some(JoinRefusalCode::JoinUnavailable));
    world.pass(31);
    let mut late = world.ask(fast, "fast4", "x4", &one);
    late.clock_ms += 31_000;
    assert!(matches!(world.send(late).await, Answer::Granted(_)));
    assert_eq!(send(bound, "other", "y", &key()).await.code(), Some(JoinRefusalCode::Permission));
    let mine = key();
    send(bound, "mine", "y", &mine).await.certificate(&mine);
    assert_eq!(world.uses_left(bound), "99", "a token that says nothing has a hundred");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_join_says_is_bounded_before_it_is_stored() {
    let world = World::start().await;
    let key = key();
    let good = world.ask(TOKEN, "north", "u1", &key);
    let long = "x".repeat(20_000);
    for wrong in [
        JoinRequest { cluster_name: format!("a\nINFO forged {long}"), ..good.clone() },
        JoinRequest { cluster_uid: long.clone(), ..good.clone() },
        JoinRequest { cluster_uid: "a\nb".into(), ..good.clone() },
        JoinRequest { provider: "a b".into(), ..good.clone() },
        JoinRequest { region: long.clone(), ..good.clone() },
        JoinRequest { zones: vec!["z".into(); 17], ..good.clone() },
        JoinRequest { agent_version: "1\n2".into(), ..good.clone() },
    ] {
        let Answer::Refused(refusal) = world.send(wrong).await else { panic!() };
        assert_eq!(refusal.code(), JoinRefusalCode::NameInvalid);
        assert!(refusal.message.len() < 700, "{}", refusal.message);
    }
    assert!(world.cluster("north").is_none());
    assert_eq!(world.uses_left(TOKEN), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_sessions_and_refusals_are_audited() {
    let folder = tempfile::tempdir().unwrap();
    let (policy_file, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let rule = "{level: Metadata, resources: [{group: cluster.karmada.io, resources: [clusters/agent]}]}";
    std::fs::write(&policy_file, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rule}]\n"))
        .unwrap();
    let options = LogOptions { path: log.clone(), ..LogOptions::default() };
    let audit = AuditSettings { policy_file, log: options };
    let world = World::with(|settings| settings.access.audit = Some(audit)).await;
    let (owner, thief) = (key(), key());
    let certificate = world.join("north", "u1", &owner).await.certificate(&owner);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    session.renew("north", &owner).await.unwrap();
    world.join("north", "u2", &thief).await;
    world.send(world.ask("zzzzzz.0123456789abcdef", "south", "u3", &thief)).await;
    world
        .connect(&world.issue("north", &thief, crate::world::HOUR), "north")
        .await
        .closed_within(SECOND)
        .await;
    let seen = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let told = |event: serde_json::Value| {
            let word =
                |path: &str| event.pointer(path).map(|v| v.to_string().replace('"', "")).unwrap_or_default();
            format!(
                "{} {} {} {}",
                word("/verb"),
                word("/user/username"),
                word("/objectRef/name"),
                word("/responseStatus/code")
            )
        };
        events.map(told).collect::<Vec<_>>()
    };
    let expected = [
        "join system:bootstrap:abcdef north 200",
        "connect system:karmada:agent:north north 200",
        "renew system:karmada:agent:north north 200",
        "join system:bootstrap:abcdef north 403",
        "join system:anonymous south 401",
        "connect system:karmada:agent:north north 403",
    ];
    until("the audit log", || seen() == expected).await;
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("0123456789abcdef"), "no token is in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_person_approves_a_new_name_waits() {
    let world = World::with(|settings| settings.access.approval = Approval::Manual).await;
    let (first, second) = (key(), key());
    assert_eq!(world.join("north", "u1", &first).await, Answer::Pending);
    assert_eq!(world.join("north", "u1", &first).await, Answer::Pending);
    assert_eq!(world.join("north", "u1", &second).await, Answer::Pending);
    let cluster = world.cluster("north").unwrap();
    assert!(cluster["metadata"]["annotations"]["edge.karmada.io/agent-key"].is_null());
    assert_eq!(cluster["spec"]["taints"][0]["key"], "edge.karmada.io/unapproved");
    let unapproved = world.issue("north", &first, crate::world::HOUR);
    assert_eq!(
        world.connect(&unapproved, "north").await.closed_within(SECOND).await,
        Some(CloseCode::Revoked)
    );
    world.annotate("north", "edge.karmada.io/adopt-key", &first.fingerprint()).await;
    until("the approval", || {
        world.cluster("north").unwrap()["metadata"]["annotations"]["edge.karmada.io/adopt-key"].is_null()
    })
    .await;
    world.join("north", "u1", &first).await.certificate(&first);
    assert_eq!(world.join("north", "u1", &second).await, Answer::Pending);
}

/// Who looks before a join is told that the token's time is over, where it is the right one.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_over_is_told_as_such_to_who_holds_it() {
    let world = World::start().await;
    let (ended, used) = ("ended0.0123456789abcdef", "used00.0123456789abcdef");
    // Those that ended more than a day ago are deleted.
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    world.token(ended, &[("expiration", &hour_ago.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())]).await;
    world.token(used, &[("uses-left", "0")]).await;
    let mut https = world.https(None).await;
    for (token, why) in [
        (ended, "TokenExpired"),
        (used, "TokenUsedUp"),
        ("ended0.0000000000000000", ""),
        ("nobody.0123456789abcdef", ""),
    ] {
        let (status, told) =
            https.send_as("GET", "/version", &[("authorization", format!("Bearer {token}"))]).await.unwrap();
        assert_eq!((status, &told["message"]), (401, &"Unauthorized".into()), "{token}");
        assert_eq!(told["details"]["causes"][0]["reason"].as_str().unwrap_or(""), why, "{token}");
    }
}

/// As many keys wait for a name as are kept: one more asks again and again, as it is told to, and takes no use of the token from
/// other sites.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_kept_waiting_uses_no_token_up() {
    let world = World::start().await;
    let token = "waits0.0123456789abcdef";
    world.token(token, &[("uses-left", "6")]).await;
    let owner = key();
    world.send(world.ask(token, "north", "u1", &owner)).await.certificate(&owner);
    for n in 0..4 {
        assert_eq!(world.send(world.ask(token, "north", &format!("w{n}"), &key())).await, Answer::Pending);
    }
    assert_eq!(world.uses_left(token), "1");
    let late = key();
    for _ in 0..3 {
        assert_eq!(world.send(world.ask(token, "north", "late", &late)).await, Answer::Pending);
    }
    assert_eq!(world.uses_left(token), "1");
    let south = key();
    world.send(world.ask(token, "south", "u2", &south)).await.certificate(&south);
}

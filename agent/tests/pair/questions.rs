//! What the hub asks of a real agent, and what it tells beside Works: room, tunnels, documents.

use std::sync::atomic::{AtomicUsize, Ordering};

use karmada_agent::member::Member as _;
use karmada_gateway::session::Document;
use karmada_gateway::{AskError, TunnelError};
use karmada_proto::v1::{
    PodUsageOf, Room, RoomFor, RoomForSets, Table, Topology, TopologyOf, TunnelRequest, TunnelResetCode,
    Unschedulable, UnschedulableOf, answer, ask,
};

use super::*;

fn room(requirements: &Value) -> ask::Question {
    ask::Question::RoomFor(RoomFor { requirements: requirements.to_string().into(), ..RoomFor::default() })
}

fn get(path: &str) -> TunnelRequest {
    TunnelRequest { method: "GET".into(), path: path.into(), user: "jane".into(), ..TunnelRequest::default() }
}

/// Two nodes of four CPUs each: eight together, and no Pod of five has room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_tells_the_room_on_its_nodes() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let within = Duration::from_secs(10);
    let asked = async |question| hub.gateway.ask("site1", question, within).await;
    assert_eq!(asked(room(&json!({}))).await, Err(AskError::NotConnected));
    let agent =
        Agent::start(hub.config("site1"), member("site1"), IdentityStore::Directory(state.path().to_owned()));
    until("nodes and Pods are known", || {
        hub.fake.seen(|s| s.statuses.get("site1").is_some_and(|s| s["resourceSummary"].is_object()))
    })
    .await;
    for (requirements, replicas) in [
        (json!({"resourceRequest": {"cpu": "1"}}), 8),
        (json!({"resourceRequest": {"cpu": "3"}}), 2),
        (json!({"resourceRequest": {"cpu": "5"}}), 0),
        (json!({"nodeClaim": {"nodeSelector": {"no": "node"}}, "resourceRequest": {"cpu": "1"}}), 0),
        (json!(null), 220),
    ] {
        let told = asked(room(&requirements)).await;
        assert_eq!(told, Ok(answer::Result::Room(Room { replicas })), "{requirements}");
    }
    // Nodes of a member in memory say nothing of where they are.
    let nowhere = answer::Result::Topology(Topology::default());
    assert_eq!(asked(ask::Question::TopologyOf(TopologyOf {})).await, Ok(nowhere));
    // What was placed a moment ago takes room, whether or not a hub tells of it: one Pod of three CPUs on either node.
    let assumed = json!([{"namespace": "shop", "components": [
        {"replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "3"}}}]}]);
    let (requirements, assumed) =
        (json!({"resourceRequest": {"cpu": "1"}}).to_string().into(), assumed.to_string().into());
    let beside = ask::Question::RoomFor(RoomFor { requirements, assumed, ..RoomFor::default() });
    assert_eq!(asked(beside).await, Ok(answer::Result::Room(Room { replicas: 2 })));
    let unreadable = RoomFor { requirements: "{}".into(), assumed: "{".into(), ..RoomFor::default() };
    let refused = asked(ask::Question::RoomFor(unreadable)).await.unwrap_err();
    assert!(matches!(&refused, AskError::Refused(why) if why.contains("assumed")), "{refused}");
    let refused = asked(ask::Question::RoomFor(RoomFor { requirements: "{".into(), ..RoomFor::default() }))
        .await
        .unwrap_err();
    assert!(matches!(&refused, AskError::Refused(why) if why.contains("requirements")), "{refused}");
    // Many at once are answered or refused, and none is forgotten.
    let many: Vec<_> = (0..200)
        .map(|_| {
            let gateway = hub.gateway.clone();
            tokio::spawn(async move { gateway.ask("site1", room(&json!({})), within).await })
        })
        .collect();
    let mut answered = 0;
    for one in many {
        match one.await.unwrap() {
            Ok(answer::Result::Room(_)) => answered += 1,
            Err(AskError::Busy) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(answered > 0);
    agent.end().await;
}

/// Eight CPUs on two nodes, of which a quota of the namespace leaves three, and one of a priority class two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_heeds_quotas_where_they_count_and_finds_room_for_sets() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let member = member("site1");
    member
        .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .await
        .unwrap();
    let quota = |name: &str, scope: Value, left: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "shop"},
            "spec": scope, "status": {"hard": {"requests.cpu": "10"}, "used": {"requests.cpu": left}}})
    };
    let gold = json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]}});
    for quota in [quota("all", json!({}), "7"), quota("gold", gold, "8")] {
        member.create(&quota).await.unwrap();
    }
    let agent = Agent::start(hub.config("site1"), member, IdentityStore::Directory(state.path().to_owned()));
    until("nodes and Pods are known", || {
        hub.fake.seen(|s| s.statuses.get("site1").is_some_and(|s| s["resourceSummary"].is_object()))
    })
    .await;
    let of = |class: &str, namespace: &str, quotas_count: bool| {
        let requirements = json!({"resourceRequest": {"cpu": "1"}, "priorityClassName": class});
        let requirements = requirements.to_string().into();
        ask::Question::RoomFor(RoomFor {
            requirements,
            namespace: namespace.into(),
            quotas_count,
            ..RoomFor::default()
        })
    };
    let sets = |quotas_count: bool| {
        let components = json!([
            {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            {"name": "worker", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}}]);
        let components = components.to_string().into();
        ask::Question::RoomForSets(RoomForSets {
            components,
            namespace: "shop".into(),
            quotas_count,
            ..RoomForSets::default()
        })
    };
    for (question, replicas) in [
        (of("", "shop", false), 8),
        (of("", "shop", true), 3),
        (of("gold", "shop", true), 2),
        (of("gold", "elsewhere", true), 8),
        (sets(false), 5),
        (sets(true), 2),
    ] {
        let told = hub.gateway.ask("site1", question.clone(), Duration::from_secs(10)).await;
        assert_eq!(told, Ok(answer::Result::Room(Room { replicas })), "{question:?}");
    }
    let unreadable = RoomForSets { components: "{".into(), ..RoomForSets::default() };
    let refused = hub.gateway.ask("site1", ask::Question::RoomForSets(unreadable), Duration::from_secs(10));
    assert!(matches!(&refused.await, Err(AskError::Refused(why)) if why.contains("components")));
    agent.end().await;
}

/// A Deployment, its ReplicaSet, and Pods of it that found no node since then.
async fn a_workload_without_room(member: &MemoryMember, since: &[&str]) {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let owned = |kind: &str, name: &str, owner: &Value| {
        let reference = json!([{"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true}]);
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop",
            "labels": {"app": "web"}, "ownerReferences": reference}})
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    member.create(&namespace).await.unwrap();
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
    deployment["spec"] = json!({"replicas": 3, "selector": selector, "template": template});
    let deployment = member.create(&deployment).await.unwrap();
    let mut set = owned("ReplicaSet", "web-1", &deployment);
    set["spec"] = json!({"selector": selector, "template": template});
    let set = member.create(&set).await.unwrap();
    for (number, since) in since.iter().enumerate() {
        let mut pod = owned("Pod", &format!("web-1-{number}"), &set);
        pod["apiVersion"] = json!("v1");
        pod["spec"] = json!({"containers": [{"name": "a", "image": "b"}]});
        pod["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}]});
        member.create(&pod).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_tells_the_replicas_that_find_no_node() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let member = member("site1");
    a_workload_without_room(
        &member,
        &["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"],
    )
    .await;
    let agent = Agent::start(hub.config("site1"), member, IdentityStore::Directory(state.path().to_owned()));
    until("nodes and Pods are known", || {
        hub.fake.seen(|s| s.statuses.get("site1").is_some_and(|s| s["resourceSummary"].is_object()))
    })
    .await;
    for (name, longer_than_seconds, replicas) in
        [("web", 300, 2), ("web", 0, 2), ("web", u64::MAX, 0), ("other", 300, 0)]
    {
        let question = ask::Question::UnschedulableOf(UnschedulableOf {
            namespace: "shop".into(),
            name: name.into(),
            longer_than_seconds,
        });
        let told = hub.gateway.ask("site1", question, Duration::from_secs(10)).await;
        assert_eq!(told, Ok(answer::Result::Unschedulable(Unschedulable { replicas })), "{name}");
    }
    agent.end().await;
}

/// The member in memory takes no requests; a question that cannot be read is told from one that cannot be answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_says_why_it_does_not_know_what_pods_use() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let store = IdentityStore::Directory(state.path().to_owned());
    let agent = Agent::start(hub.config("site1"), member("site1"), store);
    until("connected", || hub.live() == ["site1"]).await;
    let asked = async |selector: &str, metrics: &'static str| {
        let (namespace, selector) = ("shop".to_owned(), selector.to_owned());
        let question = PodUsageOf { namespace, selector, metrics: metrics.into() };
        hub.gateway.ask("site1", ask::Question::PodUsageOf(question), Duration::from_secs(10)).await
    };
    for (selector, metrics, words) in [
        ("app=web", "[]", "takes no requests from outside"),
        ("app=web", "{", "the metrics"),
        ("", "[]", "a selector"),
    ] {
        let refused = asked(selector, metrics).await.unwrap_err();
        assert!(matches!(&refused, AskError::Refused(why) if why.contains(words)), "{refused}");
    }
    agent.end().await;
}

/// The member in memory takes no requests: what is refused at the far end is told at this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_tells_what_is_refused_at_its_far_end() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let agent = Agent::start(hub.config("site1"), member("site1"), identity_store.clone());
    until("connected", || hub.live() == ["site1"]).await;
    let reset = async |request| {
        let mut open = hub.gateway.tunnel("site1", request).await.unwrap();
        open.incoming.next().await.unwrap().unwrap_err()
    };
    let away = reset(get("/api/v1/pods")).await;
    assert_eq!(away.code, TunnelResetCode::TunnelMember);
    assert!(away.message.contains("takes no requests from outside"), "{}", away.message);
    let not_allowed =
        reset(TunnelRequest { method: "DELETE".into(), ..get("/api/v1/namespaces/a/pods/p") }).await;
    assert_eq!(not_allowed.code, TunnelResetCode::TunnelNotAllowed);
    let nobody = reset(TunnelRequest { user: String::new(), ..get("/api") }).await;
    assert!(nobody.message.contains("did not say who asks"), "{}", nobody.message);
    // More than a session has streams for, one after the other.
    for _ in 0..300 {
        assert_eq!(reset(get("/api")).await.code, TunnelResetCode::TunnelMember);
    }
    agent.end().await;
    until("it is gone", || hub.live().is_empty()).await;
    let closed = Config { allowed: "none".parse().unwrap(), ..hub.config("site1") };
    let agent = Agent::start(closed, member("site1"), identity_store);
    until("connected", || hub.live() == ["site1"]).await;
    let error = hub.gateway.tunnel("site1", get("/api")).await.unwrap_err();
    assert!(
        matches!(&error, TunnelError::Refused(_, why) if why.contains("--allow-requests=none")),
        "{error}"
    );
    agent.end().await;
}

/// Whoever asked is gone by the time the tunnel is dialled: that says nothing of the connection which carries the tunnels of others. One for each
/// would soon be more than a hub takes of one agent, and the first of those is its session's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_costs_no_connection() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (address, dialled) = counted(&hub).await;
    let state = tempfile::tempdir().unwrap();
    let config = Config { hub: vec![address], ..hub.config("site1") };
    let agent = Agent::start(config, member("site1"), IdentityStore::Directory(state.path().to_owned()));
    until("connected", || hub.live() == ["site1"]).await;
    let before = dialled.load(Ordering::SeqCst);
    let mut open = Vec::new();
    for _ in 0..6 {
        // One stays: what it is for is not said yet.
        let mut stays = Box::pin(hub.gateway.tunnel("site1", get("/api")));
        assert!(futures::poll!(&mut stays).is_pending());
        open.push(stays);
        let mut gone = Box::pin(hub.gateway.tunnel("site1", get("/api")));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(gone);
        // Until the agent was asked for it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut answered = hub.gateway.tunnel("site1", get("/api")).await.unwrap();
        assert!(answered.incoming.next().await.unwrap().is_err());
    }
    assert_eq!(dialled.load(Ordering::SeqCst) - before, 1, "connections for tunnels");
    agent.end().await;
}

/// What stands in front of the hub, and counts connections.
async fn counted(hub: &Hub) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, hub, count) =
        (listener.local_addr().unwrap().to_string(), hub.address.clone(), Arc::new(AtomicUsize::new(0)));
    let dialled = count.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            dialled.fetch_add(1, Ordering::SeqCst);
            let hub = hub.clone();
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(hub).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, count)
}

/// It is told once, also over a restart of the agent, and asked while the hub is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customizations_are_told_by_content() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let told = |script: &str| {
        // Large enough for several frames, which no script may be.
        let noise: String =
            (0..40_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let script = format!("function ReflectStatus(o) return {{said = '{script}'}} end");
        let metadata = json!({"name": "c", "annotations": {"noise": noise}});
        let all = json!([{"metadata": metadata, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
            "customizations": {"statusReflection": {"luaScript": script}}}}]);
        Arc::new(Document::new(Table::Customizations, &all.to_string().into()))
    };
    let said = |key: &str| {
        hub.fake.seen(|state| {
            let report = state.reports.get(&("site1".to_owned(), key.to_owned()))?;
            let statuses: Value = serde_json::from_slice(report.manifest_statuses.as_ref()?).ok()?;
            Some(statuses.pointer("/0/status/said")?.as_str()?.to_owned())
        })
    };
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    hub.gateway.tell(told("one")).await;
    let agent = Agent::start(config.clone(), member("site1"), identity_store.clone());
    hub.fake.put("site1", "c", &settings);
    until("the first is asked", || said("c").as_deref() == Some("one")).await;
    hub.gateway.tell(told("two")).await;
    until("the second is asked", || said("c").as_deref() == Some("two")).await;
    let member = agent.end().await;
    until("it is gone", || hub.live().is_empty()).await;
    let received = || hub.gateway.fleet().link("site1").session.map_or(0, |session| session.progress.sent);
    let agent = Agent::start(config, member, identity_store);
    until("connected again", || hub.live() == ["site1"]).await;
    let mut other = settings.clone();
    other["metadata"]["name"] = json!("d");
    hub.fake.put("site1", "d", &other);
    until("it was kept", || said("d").as_deref() == Some("two")).await;
    assert!(received() < 50_000, "{} bytes: it was told again", received());
    agent.end().await;
}

//! Certificates over HTTP: an agent's opens nothing, and one that has ended is refused at the next request.

use std::time::Duration;

use karmada_certs::{ClientKey, Subject};

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn an_administrators_certificate_ends_on_a_live_connection() {
    let world = World::start().await;
    let mut admin = world.https(Some(&world.administrator(Duration::from_secs(600)))).await;
    assert_eq!(admin.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
    world.pass(601);
    assert_eq!(admin.send("GET", "/api/v1/namespaces").await.unwrap().0, 401);
    assert_eq!(admin.send("GET", "/healthz").await.unwrap().0, 401, "it is not let in as nobody, either");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_certificate_opens_no_route() {
    let world = World::start().await;
    let owner = ClientKey::generate().unwrap();
    let agent = world.join("north", "u1", &owner).await.certificate(&owner);
    let issue = |name: &str, groups: &[&str]| {
        let organizations = groups.iter().map(|group| (*group).to_owned()).collect();
        let subject = Subject { common_name: name.to_owned(), organizations };
        let now = jiff::Timestamp::now();
        world
            .hub
            .data
            .authorities()
            .signing()
            .issue_client_with_key(&subject, crate::world::HOUR, now)
            .unwrap()
    };
    // Names that an older hub may have signed on approval.
    let odd = issue("system:karmada:agent:north", &["system:masters"]);
    let cased = issue("jane", &["System:Karmada:Agents"]);
    for (who, certificate) in [("the agent", &agent), ("its name among masters", &odd), ("its group", &cased)]
    {
        let mut https = world.https(Some(certificate)).await;
        for (method, path) in [
            ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/north"),
            ("PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/north/status"),
            ("GET", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works"),
            ("PUT", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works/a/status"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            ("GET", "/api"),
            ("GET", "/version"),
        ] {
            assert_eq!(https.send(method, path).await.unwrap().0, 401, "{who}: {method} {path}");
        }
    }
    // A join writes no role for it.
    let roles = world.hub.registry.definition("rbac.authorization.k8s.io", "v1", "clusterroles").unwrap();
    assert!(world.hub.registry.get(&roles, "", "system:karmada:north:agent").is_err());
}

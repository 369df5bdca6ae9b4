//! ClusterLinks as people look at them, with kubectl.

use tests::kubectl::Kubectl;
use tests::process::logged;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{alone, shared};

fn row(kubectl: &Kubectl, args: &[&str], name: &str) -> Vec<String> {
    let table = kubectl.ok(args);
    let row = table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    row.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn links_are_looked_at_with_kubectl() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.hub.kubectl();
    let table = kubectl.ok(&["get", "clusterlinks"]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "STATE", "SINCE", "LAST-SEEN", "AGENT", "PENDING", "AGE"]);
    assert_eq!(row(&kubectl, &["get", "cl"], "north")[1], "Connected");
    let wide = kubectl.ok(&["get", "clusterlinks", "-o", "wide"]);
    assert!(wide.contains("ADDRESS") && wide.contains("127.0.0.1"), "{wide}");
    let told = kubectl.ok(&["explain", "clusterlinks.status.session.epoch"]);
    assert!(told.contains("The epoch in which the session began"), "{told}");
    kubectl.ok(&["wait", "--for=condition=Connected", "clusterlink/south", "--timeout=30s"]);
    let refused = kubectl.refused(&["delete", "clusterlink", "north"]);
    assert!(refused.contains("MethodNotAllowed"), "{refused}");
}

#[test]
fn a_watch_of_links_shows_an_agent_that_goes() {
    let Some(mut fleet) = alone() else { return };
    let kubectl = fleet.hub.kubectl();
    let folder = fleet.folder.path().to_owned();
    let watching = kubectl.background(&["get", "clusterlinks", "-w"], "watch-of-links", &folder);
    eventually("the watch begins", TIMEOUT, || logged(&watching, "south"));
    fleet.site_mut("south").agent.stop();
    eventually("the watch shows it", TIMEOUT, || logged(&watching, "Offline"));
    eventually("the table shows it", TIMEOUT, || {
        let south = row(&kubectl, &["get", "clusterlinks"], "south");
        so(south[1] == "Offline" || south[1] == "Lost", || south.join(" "))
    });
    fleet.mend();
    eventually("it is back", TIMEOUT, || {
        let south = row(&kubectl, &["get", "clusterlinks"], "south");
        so(south[1] == "Connected", || south.join(" "))
    });
}

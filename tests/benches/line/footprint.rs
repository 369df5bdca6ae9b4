//! Memory of hub and agents, and sizes of the programs.

use std::time::Duration;

use tests::built::program;

use crate::site::Site;
use tests::rows::{Goal, Rows};

const MIB: f64 = 1024.0;

/// Sizes of the release programs.
pub fn binaries(rows: &mut Rows) {
    for (name, goal) in [("karmada-hub", 25.0), ("karmada-agent", 15.0)] {
        let size = std::fs::metadata(program(name)).expect("the program is built").len();
        rows.add(&format!("{name}, stripped"), size as f64 / MIB / MIB, "MB", "-", Goal::AtMost(goal));
    }
}

/// What a user's tools ask for first: discovery, OpenAPI, explain, tables.
pub fn warm_up(site: &Site) {
    let kubectl = site.hub.kubectl();
    for command in [
        &["api-resources"][..],
        &["explain", "deployment.spec.template.spec"],
        &["explain", "propagationpolicy.spec.placement"],
        &["get", "clusters", "-o", "wide"],
        &["get", "all", "-A"],
        &["get", "--raw", "/openapi/v2"],
    ] {
        kubectl.ok(command);
    }
}

/// Memory after a quiet time.
pub fn idle(rows: &mut Rows, site: &mut Site, quiet: Duration) {
    std::thread::sleep(quiet);
    let hub = resident(site.hub.process());
    rows.add(
        "hub, idle with 3 clusters (VmRSS)",
        hub,
        "MB",
        "Karmada 715–888 MB in 7 processes",
        Goal::AtMost(50.0),
    );
    for (n, agent) in site.agents.iter_mut().enumerate() {
        let row = format!("agent {}, idle (VmRSS)", n + 1);
        rows.add(&row, resident(agent.process()), "MB", "Karmada 70–100 MB", Goal::AtMost(15.0));
    }
}

/// Memory right after the burst.
pub fn after_burst(rows: &mut Rows, site: &mut Site) {
    let hub = resident(site.hub.process());
    rows.add("hub, right after the burst (VmRSS)", hub, "MB", "Karmada 1,320–1,519 MB", Goal::AtMost(80.0));
    let agents: Vec<f64> = site.agents.iter_mut().map(|agent| resident(agent.process())).collect();
    let most = agents.iter().copied().fold(0.0, f64::max);
    rows.add("agent, right after the burst, the largest (VmRSS)", most, "MB", "-", Goal::AtMost(40.0));
}

/// `VmRSS` of a process, in MB.
pub fn resident(process: Option<&mut tests::process::Process>) -> f64 {
    process.expect("the process runs").resident_kib() as f64 / MIB
}

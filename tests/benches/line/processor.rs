//! Where the processor's time goes: hub, agents and members, between two moments.
//!
//! On a machine that all of them share, the burst is as fast as their sum is small: this names the cause of what a clock shows.

use std::time::Duration;

use crate::site::Site;

/// Processor time so far, all processes of a sort together.
#[derive(Clone, Copy)]
pub struct Used {
    hub: Duration,
    agents: Duration,
    members: Duration,
}

/// Reads the counters.
pub fn used(site: &mut Site) -> Used {
    Used {
        hub: site.hub.process().map(|process| process.processor_time()).unwrap_or_default(),
        agents: site
            .agents
            .iter_mut()
            .filter_map(|a| a.process().map(|process| process.processor_time()))
            .sum(),
        members: site.members.iter().map(|member| member.processor_time()).sum(),
    }
}

impl Used {
    /// What was used since `before`, milliseconds for each of `objects`.
    pub fn since(self, before: Used, objects: f64) -> String {
        let each = |now: Duration, then: Duration| (now - then).as_secs_f64() * 1e3 / objects;
        format!(
            "hub {:.2}, agents {:.2}, members {:.2} ms of processor per object",
            each(self.hub, before.hub),
            each(self.agents, before.agents),
            each(self.members, before.members)
        )
    }
}

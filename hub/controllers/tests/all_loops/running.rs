//! All loops running over a hub in memory, for tests of what they come to together.

use tokio::task::JoinSet;

use super::*;
use karmada_controllers::testing::{Present, Rig};

/// The loops of one hub.
pub(super) struct Running {
    loops: JoinSet<()>,
    stop: CancellationToken,
}

impl Running {
    /// Begins them.
    pub(super) async fn over(rig: &Rig, options: LoopOptions) -> Self {
        let (mut loops, stop) = (JoinSet::new(), CancellationToken::new());
        let agents = AgentPorts {
            contacts: Arc::new(Present),
            clusters: Arc::default(),
            estimator: None,
            metrics: None,
        };
        for running in super::loops(&rig.informers, &rig.shared, agents, options, &stop).await.unwrap() {
            loops.spawn(running);
        }
        Running { loops, stop }
    }

    /// Ends them.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        while self.loops.join_next().await.is_some() {}
    }
}

/// Returns when nobody has written anything within `look`.
pub(super) async fn rest(rig: &Rig, look: Duration) {
    let mut revision = None;
    while revision != Some(rig.api.revision()) {
        revision = Some(rig.api.revision());
        tokio::time::sleep(look).await;
    }
}

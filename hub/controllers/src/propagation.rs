//! The loops that spread what users apply over the fleet, and bring its status back.
//!
//! In: the watches of a hub, what the loops share, and who knows of the agents' links. Out: running loops. What wakes each stands beside it
//! (`wakes`); here is only who hands to whom.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_core::cluster::Grace;
use karmada_core::skip::SkipRules;
use tokio_util::sync::CancellationToken;

use crate::binding::Binding;
use crate::cluster::{ClusterLife, ContactSource};
use crate::cluster_news::ClusterNews;
use crate::detector::{Detector, Makers};
use crate::execution::Execution;
use crate::informer::Informers;
use crate::namespace::NamespaceSync;
use crate::policy::Policy;
use crate::port::{Key, TemplateKey};
use crate::queue::{Queue, WorkQueue};
use crate::runner::{self, Controller, Error, Source};
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::status::BindingStatus;

/// Reconciles of one controller under way at once.
const WORKERS: usize = 4;

/// Reports of the sites of one binding mostly come together: within this they make one write of its status.
const STATUS_SETTLES: Duration = Duration::from_millis(250);

/// What is known of the fleet's agents.
pub struct Agents {
    /// Who knows of their links.
    pub contacts: Arc<dyn ContactSource>,
    /// The cluster controller's queue, which is filled when one connects or is lost.
    pub clusters: Arc<Queue<Key>>,
}

/// Takes in what there is; the loops, each to be run until it ends.
pub async fn loops(
    informers: &Informers,
    shared: &Arc<Shared>,
    agents: Agents,
    stop: &CancellationToken,
) -> Result<Vec<BoxFuture<'static, ()>>, Error> {
    shared.load(informers).await?;
    let mut loops = Loops { informers, stop, all: Vec::new() };
    let (works, statuses): (Arc<Queue<Key>>, Arc<Queue<Key>>) = Default::default();
    let templates: Arc<Queue<TemplateKey>> = Arc::default();
    let makers = Makers { works: works.clone(), statuses: statuses.clone(), settle: STATUS_SETTLES };
    let detector = Detector::new(shared.clone(), SkipRules::default(), makers);
    let wakes = detector.clone().wakes(informers.clone(), templates.clone(), stop.clone());
    loops.all.push(Box::pin(wakes));
    loops.add(detector, templates.clone(), Vec::new());
    loops.add(Policy::new(shared.clone(), templates), Arc::<Queue<_>>::default(), Policy::wakes(shared));
    let scheduler = Scheduler::new(shared.clone());
    let (wakes, queue) = (scheduler.wakes(), scheduler.queue());
    loops.add(scheduler, queue, wakes);
    loops.add(Binding::new(shared.clone()), works, Binding::wakes(shared));
    let wakes = BindingStatus::wakes(shared, STATUS_SETTLES);
    loops.add(BindingStatus::new(shared.clone()), statuses, wakes);
    loops.add(Execution::new(shared.clone()), Arc::<Queue<_>>::default(), Execution::wakes(shared));
    let life = ClusterLife::new(shared.clone(), agents.contacts.clone(), Grace::default());
    loops.add(life, agents.clusters, ClusterLife::wakes());
    loops.add(
        ClusterNews::new(shared.clone(), agents.contacts),
        Arc::<Queue<_>>::default(),
        ClusterNews::wakes(),
    );
    let namespaces = NamespaceSync::new(shared.clone(), SkipRules::default());
    loops.add(namespaces, Arc::<Queue<_>>::default(), NamespaceSync::wakes(shared));
    Ok(loops.all)
}

struct Loops<'a> {
    informers: &'a Informers,
    stop: &'a CancellationToken,
    all: Vec<BoxFuture<'static, ()>>,
}

impl Loops<'_> {
    fn add<C: Controller, Q: WorkQueue<C::Key>>(
        &mut self,
        controller: Arc<C>,
        queue: Arc<Q>,
        sources: Vec<Source<C::Key>>,
    ) {
        let informers = self.informers.clone();
        let running = runner::run(informers, controller, queue, sources, WORKERS, self.stop.clone());
        self.all.push(Box::pin(running));
    }
}

#[cfg(test)]
mod tests;

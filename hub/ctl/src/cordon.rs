//! `karmadactl cordon` and `uncordon`. In: a cluster's name. Out: the taint `cluster.karmada.io/unschedulable:NoSchedule`, there
//! or gone.

use anyhow::Result;
use karmada_api::strings::taints::{NO_SCHEDULE, UNSCHEDULABLE};

use crate::access::Access;
use crate::output;
use crate::taint::{self, Change, Rule};

/// Flags of `cordon` and `uncordon`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster.
    cluster: String,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Cordons or uncordons; doing it twice is no error.
pub async fn run(access: &Access, arguments: &Arguments, cordon: bool) -> Result<()> {
    let change = Change {
        key: UNSCHEDULABLE.to_owned(),
        value: String::new(),
        effect: Some(NO_SCHEDULE.to_owned()),
        remove: !cordon,
    };
    let hub = access.hub().await?;
    let done = if cordon { "cordoned" } else { "uncordoned" };
    let changed =
        taint::write(&hub, &arguments.cluster, &[change], Rule::Idempotent, arguments.dry_run).await?;
    let already = if changed { "" } else { "already " };
    let dry = if arguments.dry_run { " (dry run)" } else { "" };
    output::line(&format!("{} cluster {already}{done}{dry}", arguments.cluster))
}

//! `karmadactl retry`: a person has a site try again what it has put aside. In: a Work and its cluster. Out: the
//! annotation `edge.karmada.io/retry` on the Work, with the present time.
//!
//! A site leaves a Work alone after its agent ended twice while it worked on nothing else. A newer body ends that by itself; the same
//! body is only tried again by this.

use anyhow::{Result, bail};
use jiff::Timestamp;
use karmada_api::names::execution_namespace;
use karmada_api::strings::annotations::RETRY;
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::Connection;
use crate::{output, site};

/// Flags of `retry`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The Work's name, as `karmadactl get works` shows it.
    work: String,
    /// The cluster that has put it aside.
    #[arg(long, visible_alias = "cluster-name")]
    cluster: String,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Sets the annotation.
pub async fn run(access: &Access, arguments: &Arguments, now: Timestamp) -> Result<()> {
    let hub = access.hub().await?;
    let cluster = site::found(&hub, &arguments.cluster).await?;
    let path = path(&arguments.cluster, &arguments.work);
    if hub.find(&path).await?.is_none() {
        bail!("{}", missing(&hub, arguments));
    }
    if !arguments.dry_run {
        hub.merge(&path, &patch(now)).await?;
    }
    let dry = if arguments.dry_run { " (dry run)" } else { "" };
    let later = site::when_heard(&cluster);
    output::line(&format!("work {} is tried again by {}{dry}{later}", arguments.work, arguments.cluster))
}

fn path(cluster: &str, work: &str) -> String {
    format!("/apis/work.karmada.io/v1alpha1/namespaces/{}/works/{work}", execution_namespace(cluster))
}

fn patch(now: Timestamp) -> Value {
    json!({"metadata": {"annotations": {RETRY: now.to_string()}}})
}

fn missing(hub: &Connection, arguments: &Arguments) -> String {
    let namespace = execution_namespace(&arguments.cluster);
    format!(
        "there is no work {} for cluster {} on {}: karmadactl get works -n {namespace} lists those there are",
        arguments.work, arguments.cluster, hub.server
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retry_is_another_one() {
        assert_eq!(path("a", "w"), "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works/w");
        let at = |second| patch(Timestamp::from_second(second).unwrap());
        assert_eq!(
            at(0).pointer("/metadata/annotations/edge.karmada.io~1retry"),
            Some(&json!("1970-01-01T00:00:00Z"))
        );
        assert_ne!(at(0), at(1));
    }
}

//! `karmadactl delete`. In: a type and names. Out: the objects gone.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::access::Access;
use crate::connection::Connection;
use crate::resource::{self, Resource};
use crate::{duration, output};

/// How often a deletion is looked after.
const POLL: Duration = Duration::from_millis(500);

/// Flags of `delete`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The type and the names, or type/name.
    #[arg(required = true, value_name = "TYPE NAME")]
    words: Vec<String>,
    /// Return when it is gone, and not when its deletion began.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "true|false")]
    wait: bool,
    /// How long to wait; 0 waits for ever.
    #[arg(long, default_value = "0", value_parser = duration::parse, allow_hyphen_values = true)]
    timeout: Duration,
}

/// Deletes each, and waits for all.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let hub = access.hub().await?;
    let resources = resource::discover(&hub).await?;
    let namespace = access.namespace.as_deref().unwrap_or(&hub.chosen.namespace);
    let mut deleted = Vec::new();
    for (resource, names) in resource::targets(&resources, &arguments.words)? {
        if names.is_empty() {
            bail!("name what to delete: karmadactl delete {} NAME", resource.plural);
        }
        for name in names {
            let path = format!("{}/{name}", resource.collection(Some(namespace)));
            if !hub.delete(&path).await? {
                bail!("{} {name:?} is not there", resource.qualified());
            }
            output::line(&format!("{} \"{name}\" deleted", resource.name_prefix()))?;
            deleted.push((resource, path));
        }
    }
    let deadline = (!arguments.timeout.is_zero()).then(|| Instant::now() + arguments.timeout);
    for (resource, path) in deleted.into_iter().filter(|_| arguments.wait) {
        gone(&hub, resource, &path, deadline).await?;
    }
    Ok(())
}

async fn gone(hub: &Connection, resource: &Resource, path: &str, deadline: Option<Instant>) -> Result<()> {
    while let Some(object) = hub.find(path).await? {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let finalizers = &object["metadata"]["finalizers"];
            bail!(
                "{path} is still there: its finalizers {finalizers} wait for something; look at it with karmadactl get {} -o yaml",
                resource.plural
            );
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

//! `karmadactl version`. In: nothing, or a hub. Out: this program's version, and the hub's.

use anyhow::Result;

use crate::access::Access;
use crate::output;

/// Flags of `version`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Do not ask the hub.
    #[arg(long)]
    client: bool,
}

/// Prints the versions. A hub that does not answer is an error after this program's version is printed.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    output::line(&format!("Client Version: v{}", env!("CARGO_PKG_VERSION")))?;
    if arguments.client {
        return Ok(());
    }
    let answer = access.hub().await?.get("/version").await?;
    output::line(&format!("Server Version: {}", answer["gitVersion"].as_str().unwrap_or("unknown")))
}

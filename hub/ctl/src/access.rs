//! The flags that say which cluster a command talks to. In: flags. Out: connections.

use std::path::PathBuf;

use crate::connection::Connection;

/// Flags of every command.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig to use: the hub's; for register and unregister, the member's [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", visible_alias = "cluster-kubeconfig")]
    pub kubeconfig: Option<PathBuf>,
    /// The context to use in it [default: its current-context]
    #[arg(long, global = true, value_name = "NAME", visible_alias = "cluster-context")]
    pub context: Option<String>,
    /// The hub's context, where it is not --context
    #[arg(long, global = true, value_name = "NAME")]
    pub karmada_context: Option<String>,
    /// The namespace [default: the context's; for register and unregister karmada-system]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl Access {
    /// The hub, for commands that know no other cluster.
    pub async fn hub(&self) -> anyhow::Result<Connection> {
        let context = self.karmada_context.as_ref().or(self.context.as_ref());
        Connection::open(self.kubeconfig.as_deref(), context.map(String::as_str)).await
    }

    /// The member, for commands that know both.
    pub async fn member(&self) -> anyhow::Result<Connection> {
        Connection::open(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }

    /// Where the agent lives in the member.
    pub fn agent_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(karmada_api::strings::namespaces::SYSTEM)
    }
}

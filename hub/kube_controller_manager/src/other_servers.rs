//! Groups that other servers answer (APIService): what they serve, and requests to them.
//!
//! `hub` implements it over the API server's aggregation; tests over a list.
//!
//! Types and a port. In: a method, a resource and a namespace. Out: the other server's code and body, or in words why there is no answer;
//! which resources there are is answered from memory.

use async_trait::async_trait;
use serde_json::Value;

/// A namespaced resource of another server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AggregatedResource {
    /// Group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// What it can be asked to do.
    pub verbs: Vec<String>,
}

impl AggregatedResource {
    /// Whether it can be asked for `verb`.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }
}

/// What is known of other servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Their namespaced resources.
    pub resources: Vec<AggregatedResource>,
    /// `GROUP/VERSION` of those that do not answer, with why.
    pub failed: Vec<(String, String)>,
}

/// Who reaches them.
#[async_trait]
pub trait OtherServers: Send + Sync + 'static {
    /// What is known now.
    fn discovered(&self) -> Discovered;

    /// One request about `resource` in a namespace; `name` empty: about all of them. Code and body of the answer.
    ///
    /// # Errors
    /// No answer, in words.
    async fn ask(
        &self,
        method: &str,
        resource: &AggregatedResource,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<(u16, Value), String>;
}

/// Where no group is handed over.
pub struct Nobody;

#[async_trait]
impl OtherServers for Nobody {
    fn discovered(&self) -> Discovered {
        Discovered::default()
    }

    async fn ask(
        &self,
        _: &str,
        _: &AggregatedResource,
        _: &str,
        _: &str,
        _: &Value,
    ) -> Result<(u16, Value), String> {
        Err("there is no other server".to_owned())
    }
}

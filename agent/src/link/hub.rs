//! How this site calls the hub beside its session: for tunnels.
//!
//! In: the connection of the session, where that can carry calls; else what is needed to dial one that can. Out: a client of the fleet service.
//! A connection that was dialled for calls ends with the last of them.

use std::sync::{Arc, Weak};

use karmada_proto::v1::fleet_client::FleetClient;
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tonic::transport::Channel;

use super::dial::{self, Connector, DialError};

type Client = FleetClient<Channel>;

/// The hub of one session.
#[derive(Clone)]
pub enum Hub {
    /// By the session's own connection.
    Beside(Client),
    /// By a connection for calls.
    Apart(Arc<Apart>),
}

/// Dials connections for calls.
pub struct Apart {
    connector: Arc<dyn Connector>,
    endpoint: String,
    /// For HTTP/2 alone.
    config: ClientConfig,
    open: Mutex<Weak<Client>>,
}

impl Apart {
    /// To the hub at this endpoint.
    pub fn new(connector: Arc<dyn Connector>, endpoint: String, config: ClientConfig) -> Self {
        Self { connector, endpoint, config, open: Mutex::new(Weak::new()) }
    }

    async fn client(&self) -> Result<Arc<Client>, DialError> {
        // Held while one is dialled: calls that come together share it.
        let mut open = self.open.lock().await;
        if let Some(client) = open.upgrade() {
            return Ok(client);
        }
        let client = Arc::new(dial::dial(&*self.connector, &self.endpoint, self.config.clone()).await?);
        *open = Arc::downgrade(&client);
        Ok(client)
    }
}

impl Hub {
    /// A client, to be held until its calls are over.
    ///
    /// # Errors
    /// The hub cannot be dialled.
    pub async fn client(&self) -> Result<Arc<Client>, DialError> {
        match self {
            Hub::Beside(client) => Ok(Arc::new(client.clone())),
            Hub::Apart(apart) => apart.client().await,
        }
    }

    /// A call failed over this client: the next one is made over another connection, where it has one of its own.
    pub async fn is_lost(&self, client: &Arc<Client>) {
        if let Hub::Apart(apart) = self {
            let mut open = apart.open.lock().await;
            if std::ptr::eq(open.as_ptr(), Arc::as_ptr(client)) {
                *open = Weak::new();
            }
        }
    }
}

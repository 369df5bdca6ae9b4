//! The tunnels that are asked for, and how many are open.
//!
//! In: tunnels that are to be dialled, each with an id of one cluster, for one use and a short time. Out: whom the call of an agent is for, where
//! it was asked for it; a place for each tunnel that may be open.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::Stream;
use karmada_certs::PeerIdentity;
use karmada_proto::v1::TunnelFrame;
use karmada_tunnel::ID;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::session_handle::SessionHandle;

/// Tunnels to one cluster at once.
const OF_A_CLUSTER: usize = 128;
/// Tunnels of the hub at once.
const OF_ALL: usize = 4096;

/// The end that an agent dialled.
pub(crate) struct Dialled {
    pub frames: Box<dyn Stream<Item = TunnelFrame> + Send + Unpin>,
    pub out: mpsc::Sender<TunnelFrame>,
    pub window: u64,
}

/// A tunnel that is asked for.
pub(crate) struct Awaited {
    pub handle: Arc<SessionHandle>,
    pub dialled: oneshot::Sender<Dialled>,
}

/// All tunnels of one hub.
#[derive(Default)]
pub(crate) struct AwaitedTunnels {
    awaited: Mutex<BTreeMap<[u8; ID], Awaited>>,
    open: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The place of one tunnel among those that may be open.
#[derive(Debug)]
pub(crate) struct TunnelPermit {
    open: Arc<Mutex<BTreeMap<String, usize>>>,
    cluster: String,
}

impl Drop for TunnelPermit {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.cluster) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.cluster);
            }
        }
    }
}

/// An id that is awaited no longer once this is dropped.
pub(crate) struct Wait<'a>(&'a AwaitedTunnels, [u8; ID]);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.awaited.lock().remove(&self.1);
    }
}

impl AwaitedTunnels {
    /// A place for one more tunnel to a cluster, where one is free.
    pub fn place(&self, cluster: &str) -> Option<TunnelPermit> {
        let mut open = self.open.lock();
        let all: usize = open.values().sum();
        let here = open.get(cluster).copied().unwrap_or_default();
        if here >= OF_A_CLUSTER || all >= OF_ALL {
            return None;
        }
        open.insert(cluster.to_owned(), here + 1);
        Some(TunnelPermit { open: self.open.clone(), cluster: cluster.to_owned() })
    }

    /// From now on a tunnel with this id is waited for.
    pub fn awaits(&self, id: [u8; ID], handle: Arc<SessionHandle>) -> (Wait<'_>, oneshot::Receiver<Dialled>) {
        let (dialled, waits) = oneshot::channel();
        self.awaited.lock().insert(id, Awaited { handle, dialled });
        (Wait(self, id), waits)
    }

    /// Takes what is awaited under `id` by the session of who dials.
    pub fn take(&self, id: &[u8], cluster: &str, peer: &PeerIdentity) -> Option<Awaited> {
        let id: [u8; ID] = id.try_into().ok()?;
        let mut awaited = self.awaited.lock();
        let handle = &awaited.get(&id)?.handle;
        let is_theirs = handle.cluster == cluster && handle.peer.key_fingerprint == peer.key_fingerprint;
        if is_theirs { awaited.remove(&id) } else { None }
    }
}

//! What of a member's object stays, answered for its agent.
//!
//! In: the question of one session. Out: the Work's manifest with what is to stay in it, or a refusal. The manifest is the hub's own: a Work of another
//! cluster, or with another body than the agent's, is not looked into.

use bytes::Bytes;
use karmada_proto::body::{self, Packing};
use karmada_proto::v1::{AskRefusalCode as Code, Retained, RetentionOf, hub_answer};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gateway::Gateway;
use crate::inbox::Packed;
use crate::session::refusal;
use crate::work_body::{body_hash, manifests};

/// The Work's manifests.
#[derive(Deserialize)]
struct Manifests<'a> {
    #[serde(borrow)]
    manifests: Vec<&'a RawValue>,
}

/// Answers the agent of `cluster`.
pub(super) async fn retained(gateway: &Gateway, cluster: &str, wanted: RetentionOf) -> hub_answer::Result {
    let Some(retention) = gateway.retention() else {
        return refusal(Code::NotKnown, "this hub asks no interpreter webhooks");
    };
    let manifest = match manifest(gateway, cluster, &wanted) {
        Ok(manifest) => manifest,
        Err(refused) => return refused,
    };
    let packed =
        Packed { encoding: wanted.encoding, bytes: wanted.observed, decoded_size: wanted.decoded_size };
    // Held until it is answered: what is unpacked and parsed is bounded, over all sessions. Nobody waits for a webhook that another asks.
    let Ok(_room) = gateway.unpacked_questions.try_acquire_many(packed.weight()) else {
        return refusal(Code::AskBusy, "too much is being asked just now");
    };
    let observed = match packed.open() {
        Ok(observed) => observed,
        Err(error) => return refusal(Code::BadQuestion, error.to_string()),
    };
    match retention.retained(manifest, observed).await {
        Ok(object) => {
            let encoded = body::encode_for(&object, Packing::Alone);
            hub_answer::Result::Retained(Retained {
                encoding: encoded.encoding.into(),
                decoded_size: encoded.decoded_size,
                object: encoded.bytes,
            })
        }
        Err(why) => refusal(Code::NotKnown, why),
    }
}

/// The manifest that is asked about.
fn manifest(gateway: &Gateway, cluster: &str, wanted: &RetentionOf) -> Result<Bytes, hub_answer::Result> {
    // It is told of what it holds otherwise, and asks again then.
    let another = || refusal(Code::NotAllowed, "it is no Work of this cluster, or another one by now");
    let work = gateway.ports.works.find(cluster, &wanted.key).ok_or_else(another)?;
    let json = work.body.json();
    if body_hash(&json).is_none_or(|hash| hash != wanted.hash) {
        return Err(another());
    }
    let text = manifests(&json).map_err(|_| another())?;
    let all: Manifests<'_> = serde_json::from_slice(&text).map_err(|_| another())?;
    let manifest = all.manifests.get(wanted.ordinal as usize);
    let none = || refusal(Code::BadQuestion, "the Work has no such manifest");
    Ok(Bytes::copy_from_slice(manifest.ok_or_else(none)?.get().as_bytes()))
}

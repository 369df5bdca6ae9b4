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
use crate::inbox::{self, Packed};
use crate::ports::NotRetained;
use crate::session::refusal;
use crate::work_body::{body_hash, manifests};

/// The Work's manifests.
#[derive(Deserialize)]
struct Manifests<'a> {
    #[serde(borrow)]
    manifests: Vec<&'a RawValue>,
}

/// What answering takes in memory, in KiB: what the agent says that its object unpacks to.
pub(super) fn weight(wanted: &RetentionOf) -> u32 {
    inbox::weight(wanted.decoded_size).max(1)
}

/// Answers the agent of `cluster`.
pub(super) async fn retained(gateway: &Gateway, cluster: &str, wanted: RetentionOf) -> hub_answer::Result {
    let busy = || refusal(Code::AskBusy, "too much is being asked just now");
    let Some(retention) = gateway.retention() else {
        return refusal(Code::NotKnown, "this hub asks no interpreter webhooks");
    };
    // It is told of what it holds otherwise, and asks again then.
    let another = || refusal(Code::NotAllowed, "it is no Work of this cluster, or another one by now");
    let RetentionOf { key, hash, ordinal, encoding, decoded_size, observed } = wanted;
    // Its own bytes: a slice of the frame would keep all of that.
    let packed = Packed { encoding, bytes: Bytes::copy_from_slice(&observed), decoded_size };
    drop(observed);
    let Some(work) = gateway.ports.works.find(cluster, &key) else { return another() };
    let json = work.body.json();
    drop(work);
    // Held until it is answered: what is unpacked and parsed is bounded, over all sessions. Nobody waits for a webhook that another asks.
    let weight = packed.weight().saturating_add(u32::try_from(json.len().div_ceil(1024)).unwrap_or(u32::MAX));
    let Ok(_room) = gateway.unpacked_questions.try_acquire_many(weight) else { return busy() };
    if body_hash(&json).is_none_or(|held| held != hash) {
        return another();
    }
    let Some(manifest) = manifest(&json, ordinal) else {
        return refusal(Code::BadQuestion, "the Work has no such manifest");
    };
    drop(json);
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
        Err(NotRetained::Busy) => busy(),
        Err(NotRetained::Failed(why)) => refusal(Code::NotKnown, why),
    }
}

/// The manifest that is asked about.
fn manifest(work: &[u8], ordinal: u32) -> Option<Bytes> {
    let text = manifests(work).ok()?;
    let all: Manifests<'_> = serde_json::from_slice(&text).ok()?;
    let manifest = all.manifests.get(ordinal as usize)?;
    Some(Bytes::copy_from_slice(manifest.get().as_bytes()))
}

//! Questions of an agent: what of an object stays is answered for its own Works alone, and whoever is slow holds up nobody.

use karmada_proto::v1::{AskHub, AskRefusalCode, RetentionOf, ask_hub, hub_answer};

use super::*;
use crate::work_body::body_hash;

const MANIFEST: &str = r#"{"kind":"Thing","size":1}"#;

/// A Work of two manifests.
pub(super) fn work() -> Option<Work> {
    let json = format!(
        r#"{{"metadata":{{"name":"w","uid":"u"}},"spec":{{"workload":{{"manifests":[{{}},{MANIFEST}]}}}}}}"#
    );
    Work::from_json(1, Bytes::from(json).into()).ok()
}

/// Keeps what is observed, once it may.
#[derive(Default)]
struct Webhook {
    hangs: AtomicBool,
    asked: Mutex<Vec<(Bytes, Bytes)>>,
}

#[async_trait]
impl Retention for Webhook {
    async fn retained(&self, manifest: Bytes, observed: Bytes) -> Result<Bytes, NotRetained> {
        self.asked.lock().push((manifest, observed.clone()));
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        match &observed[..] {
            b"null" => Err(NotRetained::Failed("the webhook is away".to_owned())),
            b"[]" => Err(NotRetained::Busy),
            _ => Ok(observed),
        }
    }
}

fn wanted(key: &str, ordinal: u32, observed: &str) -> RetentionOf {
    let encoded = body::encode(&Bytes::from(observed.to_owned()));
    RetentionOf {
        key: key.into(),
        hash: body_hash(&work().unwrap().body.json()).unwrap(),
        ordinal,
        encoding: encoded.encoding.into(),
        decoded_size: encoded.decoded_size,
        observed: encoded.bytes,
    }
}

fn ask(id: u64, wanted: RetentionOf) -> Result<AgentFrame, Broken> {
    let question = Some(ask_hub::Question::RetentionOf(wanted));
    Ok(frame::agent(agent_frame::Body::AskHub(AskHub { id, kind: 3, question })))
}

/// The answers that are there, by id; of a refusal its code.
async fn answers(session: &mut SessionStream<Inbound>) -> Vec<(u64, Result<Bytes, AskRefusalCode>)> {
    let said = turn(session).await.into_iter().filter_map(|body| match body {
        hub_frame::Body::HubAnswer(answer) => Some(answer),
        _ => None,
    });
    let read = |result| match result {
        hub_answer::Result::Retained(kept) => {
            Ok(body::decode(kept.encoding, &kept.object, kept.decoded_size).unwrap())
        }
        hub_answer::Result::Refusal(refusal) => Err(refusal.code()),
    };
    said.map(|answer| (answer.id, read(answer.result.unwrap()))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_stays_is_answered_of_the_clusters_own_works_as_the_hub_has_them() {
    use AskRefusalCode as Code;
    let rig = Rig::new();
    let (frames, mut session) = rig.open().await.unwrap();
    frames.unbounded_send(ask(1, wanted("w", 1, "{}"))).unwrap();
    assert_eq!(answers(&mut session).await, [(1, Err(Code::NotKnown))], "nobody asks webhooks");
    let webhook = Arc::new(Webhook::default());
    rig.gateway.retain_by(webhook.clone());
    let observed = r#"{"kind":"Thing","size":7}"#;
    let stale = RetentionOf { hash: Bytes::from_static(b"another"), ..wanted("w", 1, observed) };
    let lies = RetentionOf { decoded_size: 3, ..wanted("w", 1, observed) };
    let vast = RetentionOf { decoded_size: u64::MAX, ..wanted("w", 1, observed) };
    let all = [
        (1, wanted("w", 1, observed), Ok(Bytes::from_static(observed.as_bytes()))),
        (2, wanted("another", 1, observed), Err(Code::NotAllowed)),
        (3, stale, Err(Code::NotAllowed)),
        (4, wanted("w", 2, observed), Err(Code::BadQuestion)),
        (5, lies, Err(Code::BadQuestion)),
        (6, vast, Err(Code::BadQuestion)),
        (7, wanted("w", 1, "null"), Err(Code::NotKnown)),
        (11, wanted("w", 1, "[]"), Err(Code::AskBusy)),
        (8, wanted(&"w".repeat(300), 1, observed), Err(Code::BadQuestion)),
        (
            9,
            RetentionOf { observed: vec![0; 70_000].into(), ..wanted("w", 1, observed) },
            Err(Code::BadQuestion),
        ),
    ];
    for (id, wanted, expected) in all {
        frames.unbounded_send(ask(id, wanted)).unwrap();
        assert_eq!(answers(&mut session).await, [(id, expected)]);
    }
    let nothing = AskHub { id: 10, kind: 99, question: None };
    frames.unbounded_send(Ok(frame::agent(agent_frame::Body::AskHub(nothing)))).unwrap();
    assert_eq!(answers(&mut session).await, [(10, Err(Code::UnknownQuestion))]);
    let asked = std::mem::take(&mut *webhook.asked.lock());
    assert_eq!(asked.len(), 3, "nothing else is looked into");
    assert!(asked.iter().all(|(manifest, _)| manifest == MANIFEST), "the manifest is the hub's own");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_holds_up_neither_reports_nor_memory() {
    let rig = Rig::new();
    let webhook = Arc::new(Webhook::default());
    webhook.hangs.store(true, Ordering::SeqCst);
    rig.gateway.retain_by(webhook.clone());
    let (frames, mut session) = rig.open().await.unwrap();
    let large = format!("[{}]", " ".repeat(900 << 10));
    for id in 0..40 {
        frames.unbounded_send(ask(id, wanted("w", 1, &large))).unwrap();
    }
    frames.unbounded_send(ask(0, wanted("w", 1, "{}"))).unwrap();
    let refused = answers(&mut session).await;
    let busy = refused.iter().filter(|(_, result)| *result == Err(AskRefusalCode::AskBusy)).count();
    let hanging = webhook.asked.lock().len();
    assert_eq!((busy, refused.len()), (40 - hanging, 41 - hanging));
    let unpacked: usize = webhook.asked.lock().iter().map(|(_, observed)| observed.len()).sum();
    assert!(unpacked <= (rig.gateway.options.session_unpacked_kib as usize) << 10, "{unpacked}");
    // What one session has asked is not what another one finds taken.
    let other = Rig { peer: peer("m"), fake: rig.fake.clone(), gateway: rig.gateway.clone() };
    assert!(other.gateway.unpacked_questions.available_permits() > 0);
    // As large as what hangs, and written all the same.
    frames.unbounded_send(status("w", 1, 900 << 10)).unwrap();
    turn(&mut session).await;
    assert_eq!(*rig.fake.written.lock(), ["w@1"]);
}

//! Frames around their bodies: `agent(body)` and `hub(body)` set the number that lets an older receiver name
//! what it does not know.
//!
//! In: a body; or the bytes of a message before it is decoded. Out: the frame with its number, its size; whether it may be decoded. Pure.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::v1::{AgentFrame, HubFrame, TunnelFrame, agent_frame, hub_frame, tunnel_frame};

/// A frame from the agent.
pub fn agent(body: agent_frame::Body) -> AgentFrame {
    let mut frame = AgentFrame { kind: 0, body: Some(body) };
    frame.kind = frame.body.as_ref().map_or(0, agent_kind);
    frame
}

/// A frame from the hub.
pub fn hub(body: hub_frame::Body) -> HubFrame {
    let mut frame = HubFrame { kind: 0, body: Some(body) };
    frame.kind = frame.body.as_ref().map_or(0, hub_kind);
    frame
}

/// A frame of a tunnel.
pub fn tunnel(body: tunnel_frame::Body) -> TunnelFrame {
    use tunnel_frame::Body as B;
    let kind = match body {
        B::Hello(_) => 2,
        B::Request(_) => 3,
        B::Response(_) => 4,
        B::Data(_) => 5,
        B::End(_) => 6,
        B::Window(_) => 7,
        B::Reset(_) => 8,
    };
    TunnelFrame { kind, body: Some(body) }
}

/// Bytes of a frame on the wire, without gRPC's and HTTP/2's own.
pub fn size(frame: &impl Message) -> u64 {
    frame.encoded_len() as u64
}

/// A shorter message may have any number of parts: they cannot be many.
const SHORT: usize = 64 * 1024;
/// Parts of a message. Each takes some hundred bytes once it is decoded, and as little as two on the wire. Neither end sends half as many.
const PARTS: usize = 16 * 1024;

/// Whether a message may be decoded: it is short, or it and what is in it have no more parts than any message that means something. To be asked
/// before: what four megabytes of nothing become is hundreds.
pub fn is_bounded(message: &[u8]) -> bool {
    if message.len() <= SHORT {
        return true;
    }
    let mut parts = 0;
    let mut rest = message;
    while let Some(body) = next_field(&mut rest) {
        let mut inside = body;
        parts += 1;
        while parts <= PARTS && next_field(&mut inside).is_some() {
            parts += 1;
        }
        if parts > PARTS {
            return false;
        }
    }
    true
}

/// The next field's bytes, where it is of any length; `None` at the end, and where no decoder goes further either.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (_, kind) = decode_key(rest).ok()?;
    let length = match kind {
        WireType::Varint => {
            decode_varint(rest).ok()?;
            return Some(&[]);
        }
        WireType::LengthDelimited => usize::try_from(decode_varint(rest).ok()?).ok()?,
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::StartGroup | WireType::EndGroup => 0,
    };
    let (field, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(if kind == WireType::LengthDelimited { field } else { &[] })
}

/// The field number of an agent frame's body.
pub fn agent_kind(body: &agent_frame::Body) -> u32 {
    use agent_frame::Body as B;
    match body {
        B::Hello(_) => 2,
        B::Ping(_) => 3,
        B::Pong(_) => 4,
        B::Ack(_) => 5,
        B::WorkStatus(_) => 6,
        B::ClusterStatus(_) => 7,
        B::Event(_) => 8,
        B::Credit(_) => 9,
        B::Unsupported(_) => 10,
        B::Want(_) => 11,
        B::Removed(_) => 12,
        B::Orphans(_) => 13,
        B::Renew(_) => 14,
        B::Bye(_) => 15,
        B::Nack(_) => 16,
        B::Buckets(_) => 17,
        B::Rows(_) => 18,
        B::Answer(_) => 19,
        B::AskHub(_) => 20,
    }
}

/// The field number of a hub frame's body.
pub fn hub_kind(body: &hub_frame::Body) -> u32 {
    use hub_frame::Body as B;
    match body {
        B::Welcome(_) => 2,
        B::Close(_) => 3,
        B::Drain(_) => 4,
        B::Ping(_) => 5,
        B::Pong(_) => 6,
        B::Upsert(_) => 7,
        B::Tombstone(_) => 8,
        B::SnapshotEnd(_) => 9,
        B::Bookmark(_) => 10,
        B::Credit(_) => 11,
        B::Unsupported(_) => 12,
        B::Renewed(_) => 13,
        B::Resync(_) => 14,
        B::SnapshotStart(_) => 15,
        B::Compare(_) => 16,
        B::Differing(_) => 17,
        B::Lacking(_) => 18,
        B::Ask(_) => 19,
        B::Document(_) => 20,
        B::HubAnswer(_) => 21,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::*;
    use bytes::Bytes;

    /// Two bytes each on their way, a hundred once they are there.
    #[test]
    fn a_message_of_many_parts_is_not_decoded() {
        let rows = |count: usize| {
            agent(agent_frame::Body::Rows(Rows { rows: vec![Row::default(); count], ..Rows::default() }))
        };
        let keys = |count: usize, key: &str| {
            hub(hub_frame::Body::Lacking(Lacking { keys: vec![key.to_owned(); count] }))
        };
        assert!(is_bounded(&rows(30_000).encode_to_vec()), "it is short");
        assert!(!is_bounded(&rows(40_000).encode_to_vec()));
        assert!(!is_bounded(&rows(2_000_000).encode_to_vec()));
        assert!(is_bounded(&keys(10_000, "a-name-of-a-work").encode_to_vec()));
        assert!(!is_bounded(&keys(20_000, "a-name-of-a-work").encode_to_vec()));
        // The same in several pieces, which are put together.
        let piece = rows(30_000).encode_to_vec();
        assert!(!is_bounded(&[&piece[..], &piece[..]].concat()));
        // Numbers that are no fields of ours are skipped one by one.
        assert!(!is_bounded(&[0x98, 0x06, 0].repeat(100_000)));
    }

    #[test]
    fn what_is_large_and_means_something_is_decoded() {
        let bytes = Bytes::from(vec![8; 3 << 20]);
        let status = ClusterStatus { body: bytes.clone(), ..ClusterStatus::default() };
        assert!(is_bounded(&agent(agent_frame::Body::ClusterStatus(status)).encode_to_vec()));
        let upsert = Upsert { chunk: bytes, ..Upsert::default() };
        assert!(is_bounded(&hub(hub_frame::Body::Upsert(upsert)).encode_to_vec()));
        // Where a decoder stops, what is behind costs nothing.
        let cut = [&[0x12, 0xff, 0xff, 0xff, 0x7f][..], &[0x12, 0].repeat(100_000)].concat();
        assert!(is_bounded(&cut) && AgentFrame::decode(&cut[..]).is_err());
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn ping() -> Ping {
        Ping {
            seq: 1,
            next_ms: 2,
            ledger_root: Bytes::from_static(b"r3"),
            status_root: Bytes::from_static(b"r4"),
            cursor: 5,
        }
    }

    fn usage() -> PodUsage {
        let measure = PodMeasure { milli: Some(1), age: 2, window: 3, request: Some(-4) };
        let pod = MeasuredPod {
            stage: PodStage::Running.into(),
            deleting: true,
            started_for: Some(3),
            readiness: PodReadiness::NotReady.into(),
            ready_for: 5,
            measures: vec![measure],
        };
        let reading = MetricReading { unknown: "u1".into(), milli: Some(2), unrequested: "u3".into() };
        PodUsage { pods: vec![pod], readings: vec![reading] }
    }

    /// One frame of each kind with every field set to a value that names its number.
    fn agent_corpus() -> Vec<AgentFrame> {
        use agent_frame::Body as B;
        let credit = Credit { messages: 1, bytes: 2 };
        let partial = Partial { key: "k1".into(), hash: Bytes::from_static(b"h2"), received: 3 };
        let applied = Applied { ok: true, reason: "r2".into(), message: "m3".into(), retriable: true };
        [
            B::Hello(Hello {
                protocol_min: 1,
                protocol_max: 2,
                cluster_name: "c3".into(),
                cluster_uid: "u4".into(),
                key_fingerprint: "f5".into(),
                boot_id: "b6".into(),
                agent_version: "v7".into(),
                features: vec!["f8".into()],
                epoch: 9,
                cursor: 10,
                objects: 11,
                ledger_root: Bytes::from_static(b"r12"),
                clock_ms: 13,
                credit: Some(credit),
                partial: Some(partial),
                attempt: 16,
                timeline: 17,
                epoch_seal: Bytes::from_static(b"s18"),
                former_cursor: 19,
                seen: vec![Seen { timeline: 1, revision: 2 }],
                digest_seed: Bytes::from_static(b"s21"),
                status_root: Bytes::from_static(b"r22"),
                cluster_digest: Bytes::from_static(b"d23"),
                holdings: vec![Holding { table: 1, hash: Bytes::from_static(b"h2") }],
                partial_documents: vec![PartialDocument {
                    table: 1,
                    hash: Bytes::from_static(b"h2"),
                    received: 3,
                }],
            }),
            B::Ping(ping()),
            B::Pong(Pong { seq: 1, cursor: 2 }),
            B::Ack(Ack { epoch: 1, cursor: 2 }),
            B::WorkStatus(WorkStatus {
                key: "k1".into(),
                uid: "u2".into(),
                revision: 3,
                hash: Bytes::from_static(b"h4"),
                applied: Some(applied),
                encoding: Encoding::Zstd.into(),
                decoded_size: 7,
                manifest_statuses: Bytes::from_static(b"[8]"),
                generation: 9,
            }),
            B::ClusterStatus(ClusterStatus {
                encoding: Encoding::Zstd.into(),
                decoded_size: 2,
                body: Bytes::from_static(b"{3}"),
            }),
            B::Event(EventReport {
                key: "k1".into(),
                uid: "u2".into(),
                r#type: "Normal".into(),
                reason: "r4".into(),
                message: "m5".into(),
            }),
            B::Credit(credit),
            B::Unsupported(Unsupported { kind: 1, table: 2 }),
            B::Want(Want { key: "k1".into(), hash: Bytes::from_static(b"h2") }),
            B::Removed(Removed {
                key: "k1".into(),
                uid: "u2".into(),
                revision: 3,
                object_uids: vec!["o4".into()],
                never_held: true,
                held: true,
            }),
            B::Orphans(Orphans { keys: vec!["k1".into()] }),
            B::Renew(RenewRequest { csr: Bytes::from_static(b"c1") }),
            B::Bye(Bye { reason: "r1".into() }),
            B::Nack(Nack {
                key: "k1".into(),
                epoch: 2,
                revision: 3,
                code: NackCode::Poison.into(),
                retriable: true,
                message: "m6".into(),
            }),
            B::Buckets(Buckets { table: 1, sums: Bytes::from_static(b"s2") }),
            B::Rows(Rows {
                table: 1,
                rows: vec![Row {
                    key: "k1".into(),
                    content: Bytes::from_static(b"c2"),
                    hash: Bytes::from_static(b"h3"),
                }],
                last: true,
            }),
            B::Answer(Answer {
                id: 1,
                result: Some(answer::Result::Refusal(AskRefusal {
                    code: AskRefusalCode::AskBusy.into(),
                    message: "m2".into(),
                })),
            }),
            B::Answer(Answer { id: 1, result: Some(answer::Result::Room(Room { replicas: 1 })) }),
            B::Answer(Answer { id: 1, result: Some(answer::Result::TunnelComes(TunnelComes {})) }),
            B::Answer(Answer {
                id: 1,
                result: Some(answer::Result::Unschedulable(Unschedulable { replicas: 1 })),
            }),
            B::Answer(Answer { id: 1, result: Some(answer::Result::PodUsage(usage())) }),
            B::Answer(Answer {
                id: 1,
                result: Some(answer::Result::Topology(Topology {
                    provider: "p1".into(),
                    region: "r2".into(),
                    zones: vec!["z3".into()],
                })),
            }),
            B::AskHub(AskHub {
                id: 1,
                kind: 3,
                question: Some(ask_hub::Question::RetentionOf(RetentionOf {
                    key: "k1".into(),
                    hash: Bytes::from_static(b"h2"),
                    ordinal: 3,
                    encoding: Encoding::Zstd.into(),
                    decoded_size: 5,
                    observed: Bytes::from_static(b"o6"),
                })),
            }),
        ]
        .into_iter()
        .map(agent)
        .collect()
    }

    fn hub_corpus() -> Vec<HubFrame> {
        use hub_frame::Body as B;
        let credit = Credit { messages: 1, bytes: 2 };
        [
            B::Welcome(Welcome {
                protocol: 1,
                session_seq: 2,
                epoch: 3,
                ping_min_ms: 4,
                ping_max_ms: 5,
                retry_hint_ms: 6,
                credit: Some(credit),
                hub_clock_ms: 8,
                frame_limit: 9,
                features: vec!["f10".into()],
                trust_bundle_revision: 11,
                timeline: 12,
                epoch_seal: Bytes::from_static(b"s13"),
            }),
            B::Close(Close {
                code: CloseCode::Clone.into(),
                retry: RetryClass::RetryAfter.into(),
                after_ms: 3,
                message: "m4".into(),
                endpoint: "e5".into(),
            }),
            B::Drain(Drain { after_ms: 1 }),
            B::Ping(ping()),
            B::Pong(Pong { seq: 1, cursor: 2 }),
            B::Upsert(Upsert {
                key: "k1".into(),
                uid: "u2".into(),
                epoch: 3,
                revision: 4,
                hash: Bytes::from_static(b"h5"),
                encoding: Encoding::Zstd.into(),
                encoded_size: 7,
                decoded_size: 8,
                offset: 9,
                chunk: Bytes::from_static(b"c10"),
                suspended: true,
                preserve: true,
                offer: true,
                cursor: 14,
                generation: 15,
                retry: "r16".into(),
                keep_former: true,
                base: Bytes::from_static(b"b18"),
            }),
            B::Tombstone(Tombstone {
                key: "k1".into(),
                uid: "u2".into(),
                epoch: 3,
                revision: 4,
                reason: TombstoneReason::Released.into(),
                preserve: true,
                cursor: 7,
                retry: "r8".into(),
            }),
            B::SnapshotEnd(SnapshotEnd { epoch: 1, cursor: 2, withheld: true }),
            B::Bookmark(Bookmark { cursor: 1 }),
            B::Credit(credit),
            B::Unsupported(Unsupported { kind: 1, table: 2 }),
            B::Renewed(RenewReply {
                certificate: "c1".into(),
                ca_bundle: "b2".into(),
                endpoints: vec!["e3".into()],
                refusal: "r4".into(),
            }),
            B::Resync(Resync {
                statuses: true,
                cluster: false,
                resource_models: "m3".into(),
                trust_bundle_revision: 4,
            }),
            B::SnapshotStart(SnapshotStart { epoch: 1, differences: true, anew: true }),
            B::Compare(Compare { table: 1 }),
            B::Differing(Differing { table: 1, buckets: vec![2, 300] }),
            B::Lacking(Lacking { keys: vec!["k1".into()] }),
            B::Document(Document {
                table: 1,
                hash: Bytes::from_static(b"h2"),
                encoding: Encoding::Zstd.into(),
                encoded_size: 4,
                decoded_size: 5,
                offset: 6,
                chunk: Bytes::from_static(b"c7"),
            }),
            B::HubAnswer(HubAnswer {
                id: 1,
                result: Some(hub_answer::Result::Refusal(AskRefusal {
                    code: AskRefusalCode::NotKnown.into(),
                    message: "m2".into(),
                })),
            }),
            B::HubAnswer(HubAnswer {
                id: 1,
                result: Some(hub_answer::Result::Retained(Retained {
                    encoding: Encoding::Zstd.into(),
                    decoded_size: 2,
                    object: Bytes::from_static(b"o3"),
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 4,
                question: Some(ask::Question::RoomFor(RoomFor {
                    requirements: Bytes::from_static(b"{}"),
                    namespace: "n1".to_owned(),
                    quotas_count: true,
                    assumed: Bytes::new(),
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 4,
                question: Some(ask::Question::RoomFor(RoomFor {
                    requirements: Bytes::from_static(b"{}"),
                    namespace: "n1".to_owned(),
                    quotas_count: true,
                    assumed: Bytes::from_static(b"[{}]"),
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 8,
                question: Some(ask::Question::RoomForSets(RoomForSets {
                    components: Bytes::from_static(b"[]"),
                    namespace: "n1".to_owned(),
                    quotas_count: true,
                    assumed: Bytes::new(),
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 8,
                question: Some(ask::Question::RoomForSets(RoomForSets {
                    components: Bytes::from_static(b"[]"),
                    namespace: "n1".to_owned(),
                    quotas_count: true,
                    assumed: Bytes::from_static(b"[{}]"),
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 5,
                question: Some(ask::Question::OpenTunnel(OpenTunnel { id: Bytes::from_static(b"i1") })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 6,
                question: Some(ask::Question::UnschedulableOf(UnschedulableOf {
                    namespace: "n1".into(),
                    name: "n2".into(),
                    longer_than_seconds: 3,
                })),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 9,
                question: Some(ask::Question::TopologyOf(TopologyOf {})),
            }),
            B::Ask(Ask {
                id: 1,
                within_ms: 2,
                kind: 7,
                question: Some(ask::Question::PodUsageOf(PodUsageOf {
                    namespace: "n1".into(),
                    selector: "s2".into(),
                    metrics: Bytes::from_static(b"m3"),
                })),
            }),
        ]
        .into_iter()
        .map(hub)
        .collect()
    }

    fn tunnel_corpus() -> Vec<TunnelFrame> {
        use tunnel_frame::Body as B;
        let header = TunnelHeader { name: "n1".into(), value: Bytes::from_static(b"v2") };
        [
            B::Hello(TunnelHello { id: Bytes::from_static(b"i1"), window: 2 }),
            B::Request(TunnelRequest {
                window: 1,
                method: "m2".into(),
                path: "p3".into(),
                headers: vec![header.clone()],
                upgrade: true,
                user: "u6".into(),
                uid: "u7".into(),
                groups: vec!["g8".into()],
                extra: vec![TunnelExtra { key: "k1".into(), values: vec!["v2".into()] }],
            }),
            B::Response(TunnelResponse { status: 1, headers: vec![header] }),
            B::Data(TunnelData { offset: 1, bytes: Bytes::from_static(b"d2") }),
            B::End(TunnelEnd { offset: 1 }),
            B::Window(TunnelWindow { until: 1 }),
            B::Reset(TunnelReset { code: TunnelResetCode::TunnelMember.into(), message: "m2".into() }),
        ]
        .into_iter()
        .map(tunnel)
        .collect()
    }

    /// Bytes that were once on a wire keep their meaning: the corpus is compared, never regenerated. A new
    /// frame appends a line; a changed line is a broken protocol.
    #[test]
    fn golden_frames_encode_and_decode_as_they_always_did() {
        let golden: Vec<&str> = include_str!("golden.txt").lines().filter(|l| !l.starts_with('#')).collect();
        let mut now = Vec::new();
        now.extend(agent_corpus().iter().map(|f| format!("agent {}", hex(&f.encode_to_vec()))));
        now.extend(hub_corpus().iter().map(|f| format!("hub {}", hex(&f.encode_to_vec()))));
        now.extend(tunnel_corpus().iter().map(|f| format!("tunnel {}", hex(&f.encode_to_vec()))));
        let missing: Vec<&str> =
            now.iter().map(String::as_str).filter(|line| !golden.contains(line)).collect();
        assert!(missing.is_empty(), "not in golden.txt:\n{}", missing.join("\n"));
        for line in golden {
            let (end, bytes) = line.split_once(' ').unwrap();
            let bytes: Vec<u8> = (0..bytes.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&bytes[i..i + 2], 16).unwrap())
                .collect();
            let again = match end {
                "agent" => AgentFrame::decode(&*bytes).unwrap().encode_to_vec(),
                "tunnel" => TunnelFrame::decode(&*bytes).unwrap().encode_to_vec(),
                _ => HubFrame::decode(&*bytes).unwrap().encode_to_vec(),
            };
            assert_eq!(hex(&again), hex(&bytes), "{end} frame changed its meaning");
        }
    }

    /// A frame from the future: known envelope, unknown body. The receiver can name it.
    #[test]
    fn an_unknown_frame_keeps_its_number() {
        // field 1 = 99, field 99 (length-delimited) = "x"
        let bytes = [0x08, 99, 0x9a, 0x06, 1, b'x'];
        let frame = AgentFrame::decode(&bytes[..]).unwrap();
        assert_eq!((frame.kind, frame.body), (99, None));
        let frame = HubFrame::decode(&bytes[..]).unwrap();
        assert_eq!((frame.kind, frame.body), (99, None));
    }

    #[test]
    fn kinds_are_the_field_numbers() {
        let agent = agent_corpus().into_iter().map(|frame| (frame.kind, frame.encode_to_vec()));
        let hub = hub_corpus().into_iter().map(|frame| (frame.kind, frame.encode_to_vec()));
        let tunnel = tunnel_corpus().into_iter().map(|frame| (frame.kind, frame.encode_to_vec()));
        for (kind, bytes) in agent.chain(hub).chain(tunnel) {
            // 08 kind, then the body's tag
            assert_eq!(u32::from(bytes[1]), kind);
            let tag =
                u32::from(bytes[2] & 0x7f) | if bytes[2] & 0x80 == 0 { 0 } else { u32::from(bytes[3]) << 7 };
            assert_eq!(tag >> 3, kind);
        }
    }
}

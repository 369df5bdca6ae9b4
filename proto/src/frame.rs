//! Frames around their bodies: `agent(body)` and `hub(body)` set the number that lets an older receiver name
//! what it does not know.

use prost::Message;

use crate::v1::{AgentFrame, HubFrame, agent_frame, hub_frame};

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

/// Bytes of a frame on the wire, without gRPC's and HTTP/2's own.
pub fn size(frame: &impl Message) -> u64 {
    frame.encoded_len() as u64
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::*;
    use bytes::Bytes;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
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
            }),
            B::Ping(Ping { seq: 1, next_ms: 2 }),
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
            B::Unsupported(Unsupported { kind: 1 }),
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
            B::Ping(Ping { seq: 1, next_ms: 2 }),
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
            B::Unsupported(Unsupported { kind: 1 }),
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
            B::SnapshotStart(SnapshotStart { epoch: 1 }),
        ]
        .into_iter()
        .map(hub)
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
        for frame in agent_corpus() {
            let bytes = frame.encode_to_vec();
            // 08 kind, then the body's tag
            assert_eq!(u32::from(bytes[1]), frame.kind);
            let tag =
                u32::from(bytes[2] & 0x7f) | if bytes[2] & 0x80 == 0 { 0 } else { u32::from(bytes[3]) << 7 };
            assert_eq!(tag >> 3, frame.kind);
        }
        for frame in hub_corpus() {
            let bytes = frame.encode_to_vec();
            assert_eq!(u32::from(bytes[2]) >> 3, frame.kind);
        }
    }
}

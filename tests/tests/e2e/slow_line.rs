//! A line of less than 10 kbit/s.

use std::time::Duration;

use serde_json::json;
use tests::faulty_link::Link;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{get, has_condition};
use crate::private_site::{Line, WORKS, config, work};

/// Bytes a second: 8 kbit/s.
const RATE: u32 = 1_000;

/// Text that packs to little less than it is.
pub fn noise(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(35 + (state >> 32) as u8 % 56)
    };
    (0..length).map(|_| letter()).collect()
}

/// It takes a minute, in which nothing else gets through: longer than any silence that ends a session.
#[test]
fn a_body_of_64_kib_arrives_over_a_slow_line_and_the_session_stands() {
    let Some(mut line) = Line::start() else { return };
    let link = Link::to(line.hub.address());
    line.lead_over(&link);
    line.put("small", "calm");
    line.await_agreement(&[("small", "calm")]);
    let connections = link.connections();
    assert!(connections > 0, "the agent comes by the link");
    link.slow_down(Some(RATE));
    let (_, before) = link.bytes();
    let text = noise(64 << 10);
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "large", "namespace": "default"}, "data": {"text": text}});
    let object = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "large"}, "spec": {"workload": {"manifests": [manifest]}}});
    line.hub.api().create(WORKS, &object).unwrap();
    eventually("the large body", 3 * TIMEOUT, || {
        let found = get(line.member.api(), &config("large"))?;
        so(found["data"]["text"] == text.as_str(), || "it is another text".to_owned())
    });
    let (_, after) = link.bytes();
    assert!(after - before > 40_000, "{} bytes came over the line", after - before);
    eventually("its outcome", TIMEOUT, || {
        has_condition(&get(line.hub.api(), &work("large"))?, "Applied", "True", "")
    });
    assert_eq!(link.connections(), connections, "over the session that stood");
    // Nor did a ping that waited behind it end the session afterwards.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(link.connections(), connections);
    line.agent.process().unwrap().alive().unwrap();
}

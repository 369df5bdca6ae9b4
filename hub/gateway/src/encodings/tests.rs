//! What is shared is packed once, and what comes out is what went in.

use karmada_proto::body::{decode, encode_for};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::noise;

/// A Work's body as it goes to one site, after the API gave it its id: all but the id and the cluster's name is every site's.
fn body(site: usize, settings: &str) -> Bytes {
    let spec = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"settings": settings},
        "metadata": {"name": "shop", "annotations": {"work.karmada.io/namespace": format!("karmada-es-site-{site}")},
            "labels": {"work.karmada.io/permanent-id": format!("{:032x}", site * 7_919)}}});
    json!({"manifests": [spec]}).to_string().into()
}

fn decoded(encoded: &Encoded) -> Bytes {
    decode(encoded.encoding.into(), &encoded.bytes, encoded.decoded_size).unwrap()
}

const PACKINGS: [Packing; 2] = [Packing::Alone, Packing::WithDictionary];

#[test]
fn a_body_for_a_thousand_sites_is_packed_once() {
    for (size, packing) in [(5_000, 0), (20_000, 1), (200_000, 1)].map(|(size, at)| (size, PACKINGS[at])) {
        let (encodings, settings) = (Encodings::default(), noise(size, 1));
        for site in 0..1000 {
            let body = body(site, &settings);
            let encoded = encodings.whole(&body, packing);
            assert_eq!(decoded(&encoded), body);
            let alone = encode_for(&body, packing).bytes.len();
            assert!(encoded.bytes.len() < alone + 64, "{} beside {alone}", encoded.bytes.len());
        }
        assert_eq!(encodings.counts(), (1, 999));
        encodings.whole(&body(0, &noise(size, 2)), packing);
        assert_eq!(encodings.counts(), (2, 999), "another body is packed anew");
    }
}

#[test]
fn a_change_for_a_thousand_sites_is_packed_once() {
    for size in [5_000, 20_000, 200_000] {
        let encodings = Encodings::default();
        let (before, mut after) = (noise(size, 1), noise(size, 1));
        after.replace_range(size / 2..size / 2 + 1, "17");
        for site in 0..1000 {
            let (base, body) = (body(site, &before), body(site, &after));
            let encoded = encodings.difference(&base, &body).unwrap();
            assert!(encoded.bytes.len() < 350, "{size}: {}", encoded.bytes.len());
            assert_eq!(delta::unpack(&base, &encoded.bytes, encoded.decoded_size), Ok(body));
        }
        assert_eq!(encodings.counts(), (1, 999));
    }
}

#[test]
fn threads_that_come_at_once_pack_once() {
    let (encodings, settings) = (Encodings::default(), noise(400_000, 1));
    std::thread::scope(|scope| {
        for site in 0..8 {
            let (encodings, settings) = (&encodings, &settings);
            scope.spawn(move || encodings.whole(&body(site, settings), Packing::Alone));
        }
    });
    assert_eq!(encodings.counts(), (1, 7));
}

#[test]
fn a_small_body_is_packed_for_each_site_and_takes_no_byte_more() {
    let encodings = Encodings::default();
    let body = body(1, "small");
    assert_eq!(encodings.whole(&body, Packing::WithDictionary), encode_for(&body, Packing::WithDictionary));
    assert_eq!(encodings.counts(), (0, 0));
}

#[test]
fn what_is_kept_is_bounded() {
    let encodings = Encodings::default();
    for seed in 0..200 {
        encodings.whole(&body(1, &noise(100_000, seed)), Packing::Alone);
    }
    encodings.whole(&body(1, &noise(3_000_000, 1)), Packing::Alone);
    let kept = encodings.kept.lock();
    let weigh = |pieces: &HashMap<Piece, Packed>| pieces.keys().map(|piece| piece.weight).sum::<usize>();
    let (young, old) = (weigh(&kept.young.0), weigh(&kept.old));
    assert!(young + old <= KEPT && young + old > KEPT / 4, "{young} and {old}");
}

proptest! {
    /// Whatever a body is, and wherever it seems to name a cluster.
    #[test]
    fn any_body_comes_out_as_it_went_in(
        parts in prop::collection::vec((0..9000usize, 0..3u64, 0..5u8), 0..6),
        other in prop::collection::vec((0..9000usize, 0..3u64, 0..5u8), 0..6),
    ) {
        let text = |parts: &[(usize, u64, u8)]| -> Bytes {
            let part = |(length, seed, end): &(usize, u64, u8)| {
                let end = ["", SITES_OWN[0], "\"work.karmada.io/permanent-id\":\"a\"", "é\"", "\u{0}"][usize::from(*end)];
                noise(*length, *seed) + end
            };
            parts.iter().map(part).collect::<String>().into()
        };
        let (text, other) = (text(&parts), text(&other));
        let encodings = Encodings::default();
        for packing in PACKINGS {
            prop_assert_eq!(decoded(&encodings.whole(&text, packing)), text.clone());
        }
        let difference = encodings.difference(&other, &text).unwrap();
        prop_assert_eq!(delta::unpack(&other, &difference.bytes, difference.decoded_size), Ok(text));
    }
}

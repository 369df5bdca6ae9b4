//! Values on their way to the disk and back, under one key after another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const KEYS: [&str; 3] = [
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
    "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=",
];
const KEY: &str = "/registry/core/secrets/default/a";

fn provider(kind: &str, keys: &[usize]) -> String {
    if kind == "identity" {
        return "{identity: {}}".into();
    }
    let keys: Vec<String> =
        keys.iter().map(|n| format!("{{name: key{n}, secret: \"{}\"}}", KEYS[*n])).collect();
    format!("{{{kind}: {{keys: [{}]}}}}", keys.join(", "))
}

fn of_secrets(providers: &[String]) -> Configuration {
    of("secrets", providers)
}

fn of(resources: &str, providers: &[String]) -> Configuration {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [{resources}]\n  providers: [{}]\n",
        providers.join(", ")
    );
    Configuration::read(&text).unwrap()
}

fn counting(buffer: &mut [u8]) {
    buffer.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
}

fn at_rest(configuration: Configuration) -> EncryptionProviders {
    EncryptionProviders::new(configuration, Arc::new(counting)).unwrap()
}

fn sealed(at_rest: &EncryptionProviders) -> Bytes {
    at_rest.seal("", "secrets", KEY, Bytes::from_static(b"{value}")).unwrap()
}

async fn opened(at_rest: &EncryptionProviders, stored: &Bytes) -> Result<bool, String> {
    let opened = at_rest.open("", "secrets", KEY, stored).await.map_err(|failure| failure.to_string())?;
    assert_eq!(&opened.value[..], b"{value}");
    Ok(opened.is_stale)
}

#[tokio::test]
async fn the_first_provider_writes_and_every_one_reads() {
    for kind in ["aescbc", "aesgcm", "secretbox"] {
        let first = at_rest(of_secrets(&[provider(kind, &[0])]));
        let stored = sealed(&first);
        assert!(stored.starts_with(format!("k8s:enc:{kind}:v1:key0:").as_bytes()), "{stored:?}");
        assert_eq!(opened(&first, &stored).await, Ok(false));
        let next = at_rest(of_secrets(&[provider(kind, &[1, 0]), provider("identity", &[])]));
        assert_eq!(opened(&next, &stored).await, Ok(true), "an older key of the same provider");
        assert_eq!(opened(&next, &sealed(&next)).await, Ok(false));
        let clear = Bytes::from_static(b"{value}");
        assert_eq!(opened(&next, &clear).await, Ok(true), "in clear");
        let back = at_rest(of_secrets(&[provider("identity", &[]), provider(kind, &[0])]));
        assert_eq!(sealed(&back), clear);
        assert_eq!(opened(&back, &stored).await, Ok(true));
        assert_eq!(opened(&back, &clear).await, Ok(false));
    }
}

#[tokio::test]
async fn what_nobody_reads_is_an_error_that_names_provider_and_key() {
    let stored = sealed(&at_rest(of_secrets(&[provider("aesgcm", &[0])])));
    let missing = opened(&at_rest(of_secrets(&[provider("aesgcm", &[1])])), &stored).await.unwrap_err();
    assert_eq!(
        missing,
        format!(
            "{KEY:?} is encrypted as \"k8s:enc:aesgcm:v1:key0\": no provider of the encryption configuration reads it"
        )
    );
    let other = of_secrets(&[provider("aesgcm", &[1]).replace("key1", "key0")]);
    let wrong = opened(&at_rest(other), &stored).await.unwrap_err();
    assert_eq!(
        wrong,
        format!(
            "{KEY:?} is encrypted as \"k8s:enc:aesgcm:v1:key0\": k8s:enc:aesgcm:v1:key0 of the configuration does not open it"
        )
    );
    let clear = Bytes::from_static(b"{value}");
    let closed = opened(&at_rest(of_secrets(&[provider("aesgcm", &[0])])), &clear).await.unwrap_err();
    assert!(
        closed.contains("is stored in clear, which the encryption configuration does not allow"),
        "{closed}"
    );
}

#[tokio::test]
async fn a_value_that_is_copied_to_another_key_is_not_read() {
    let at_rest = at_rest(of_secrets(&[provider("aesgcm", &[0])]));
    let stored = sealed(&at_rest);
    let elsewhere = at_rest.open("", "secrets", "/registry/core/secrets/default/b", &stored).await;
    assert!(matches!(elsewhere, Err(Failure::Unreadable(_))), "{elsewhere:?}");
}

#[tokio::test]
async fn what_is_not_covered_any_more_is_still_read_and_is_to_be_written_in_clear() {
    let stored = sealed(&at_rest(of_secrets(&[provider("aesgcm", &[0])])));
    let others = at_rest(of("configmaps", &[provider("aesgcm", &[0])]));
    assert_eq!(opened(&others, &stored).await, Ok(true));
    assert_eq!(sealed(&others), Bytes::from_static(b"{value}"));
}

#[tokio::test]
async fn a_key_that_is_dropped_reads_until_everything_is_written_anew() {
    let at_rest = at_rest(of_secrets(&[provider("aesgcm", &[0])]));
    let stored = sealed(&at_rest);
    let before = at_rest.layout();
    at_rest.adopt(of_secrets(&[provider("aescbc", &[1])])).await.unwrap();
    assert_ne!(at_rest.layout(), before);
    assert_eq!(opened(&at_rest, &stored).await, Ok(true));
    at_rest.forget_older();
    assert!(opened(&at_rest, &stored).await.is_err());
    assert_eq!(opened(&at_rest, &sealed(&at_rest)).await, Ok(false));
}

/// What a kube-apiserver (1.34) stored under key 1, as it was recorded: provider, key in etcd, what etcd had.
const RECORDED: &str = include_str!("../recorded.tsv");

#[tokio::test]
async fn what_kube_apiserver_stored_is_read_and_a_change_of_it_is_told() {
    for line in RECORDED.lines() {
        let [provider, place, stored] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let stored = Bytes::from(STANDARD.decode(stored).unwrap());
        let keys = self::provider(provider, &[1]).replace("key1", "one");
        let at_rest = at_rest(of_secrets(&[keys]));
        let opened = at_rest.open("", "secrets", place, &stored).await.unwrap();
        let text = String::from_utf8_lossy(&opened.value).into_owned();
        assert!(text.starts_with("k8s\0") && text.contains("marked-marked"), "{provider}: {text}");
        assert!(!opened.is_stale, "{provider}");
        let mut other = stored.to_vec();
        *other.last_mut().unwrap() ^= 1;
        let other = at_rest.open("", "secrets", place, &other.into()).await;
        assert!(provider == "aescbc" || other.is_err(), "{provider}: {other:?}");
    }
    assert_eq!(RECORDED.lines().count(), 3);
}

//! A cluster's name from a kubeconfig's. In: any text. Out: a DNS label that the hub takes as a Cluster's name.

use karmada_api::validation::cluster::MAX_NAME;

/// Lower case, everything else a dash, at most [`MAX_NAME`] characters. The end is kept: cloud providers' names start with
/// what all of them share (`arn:aws:eks:…:cluster/shop`). `None` if nothing is left.
pub fn from_kubeconfig(name: &str) -> Option<String> {
    let mut label = String::new();
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => label.push(c),
            _ if label.ends_with('-') => {}
            _ => label.push('-'),
        }
    }
    let label = label.trim_matches('-');
    // Only ASCII is left, so every byte is a boundary.
    let label = label[label.len().saturating_sub(MAX_NAME)..].trim_start_matches('-');
    (!label.is_empty()).then(|| label.to_owned())
}

/// Says what is wrong with a name that a person gave.
pub fn check(name: &str) -> Result<(), String> {
    match karmada_api::validation::cluster::validate_name(name).first() {
        Some(error) => Err(format!("{name:?} cannot be a cluster's name: {error}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_origin_become_labels() {
        for (name, label) in [
            ("kind-member1", Some("kind-member1")),
            ("Shop_Berlin.1", Some("shop-berlin-1")),
            ("https://10.0.0.1:6443", Some("https-10-0-0-1-6443")),
            (
                "arn:aws:eks:eu-central-1:123456789012:cluster/a-shop-with-a-name",
                Some("entral-1-123456789012-cluster-a-shop-with-a-name"),
            ),
            ("--", None),
            ("ü", None),
            ("", None),
        ] {
            let made = from_kubeconfig(name);
            assert_eq!(made.as_deref(), label, "{name}");
            if let Some(made) = made {
                assert_eq!(check(&made), Ok(()));
            }
        }
        for wrong in ["", "Shop", "a b", "-a", &"a".repeat(49)] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}

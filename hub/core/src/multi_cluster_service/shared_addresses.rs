//! Addresses that several clusters tell of one Service: a sign that their networks overlap, so that whoever is sent to such an address reaches one
//! of its Pods or another's. Pure.
//!
//! In: what each cluster's agent told of where the Service is reached. Out: the clusters that share addresses, and words with a few examples. An
//! agent knows its own cluster's addresses alone, and nobody tells the ranges that they are from: networks that overlap show here once two
//! Pods happen to have the same address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use karmada_api::multi_cluster_service::ServiceEndpoints;
use serde_json::Value;

/// Addresses of one Service that are kept while they are compared; what comes after is not compared.
const MOST: usize = 1 << 16;

/// Addresses that are given as examples.
const EXAMPLES: usize = 3;

/// What clusters told so far, one after the other.
#[derive(Debug, Default)]
pub struct SharedAddresses {
    clusters: Vec<String>,
    /// Which of the clusters told an address first.
    first: BTreeMap<IpAddr, usize>,
    overlap: Overlap,
}

/// What clusters share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Those that tell an address that another one tells.
    pub clusters: BTreeSet<String>,
    examples: Vec<(IpAddr, String, String)>,
}

impl SharedAddresses {
    /// Takes what a cluster told; each cluster comes once.
    pub fn take(&mut self, cluster: &str, told: &ServiceEndpoints) {
        let own = self.clusters.len();
        self.clusters.push(cluster.to_owned());
        let slices = told.endpoint_slices.iter();
        let endpoints = slices.flat_map(|slice| &slice.endpoints);
        let texts = endpoints.flat_map(|endpoint| endpoint["addresses"].as_array()).flatten();
        for address in texts.filter_map(Value::as_str).filter_map(|text| text.parse::<IpAddr>().ok()) {
            if let Some(first) = self.first.get(&address) {
                self.note(address, *first, own);
            } else if self.first.len() < MOST {
                self.first.insert(address, own);
            }
        }
    }

    fn note(&mut self, address: IpAddr, first: usize, own: usize) {
        let (Some(first), Some(own)) = (self.clusters.get(first), self.clusters.get(own)) else { return };
        if first == own {
            return;
        }
        let is_new = !self.overlap.clusters.contains(first) || !self.overlap.clusters.contains(own);
        if is_new && self.overlap.examples.len() < EXAMPLES {
            self.overlap.examples.push((address, first.clone(), own.clone()));
        }
        self.overlap.clusters.extend([first.clone(), own.clone()]);
    }

    /// What they share.
    pub fn end(self) -> Overlap {
        self.overlap
    }
}

impl Overlap {
    /// What is told of it: examples, and what that means.
    pub fn words(&self) -> String {
        let example = |(address, first, second): &(IpAddr, String, String)| {
            format!("{address} is told by the clusters {first} and {second}")
        };
        let examples: Vec<String> = self.examples.iter().map(example).collect();
        format!(
            "{} ({} clusters share addresses): where these are addresses of Pods, the clusters' networks overlap, and who is sent there reaches the Pod of one of them, or of neither",
            examples.join(", "),
            self.clusters.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(addresses: &[&str]) -> ServiceEndpoints {
        let endpoints: Vec<Value> = addresses.iter().map(|one| json!({"addresses": [one]})).collect();
        serde_json::from_value(
            json!({"endpointSlices": [{"name": "s", "addressType": "IPv4", "endpoints": endpoints}]}),
        )
        .unwrap()
    }

    fn overlap(all: &[(&str, &[&str])]) -> Overlap {
        let mut shared = SharedAddresses::default();
        all.iter().for_each(|(cluster, addresses)| shared.take(cluster, &told(addresses)));
        shared.end()
    }

    #[test]
    fn an_address_of_two_clusters_is_an_overlap() {
        let none = overlap(&[
            ("a", &["10.0.0.1", "10.0.0.1", "fd00::1"]),
            ("b", &["10.0.0.2", "host.example"]),
            ("c", &["host.example"]),
        ]);
        assert_eq!(none, Overlap::default(), "a cluster tells its own twice, and names are no addresses");
        let two = overlap(&[("a", &["10.0.0.1", "10.0.0.3"]), ("b", &["10.0.0.3"]), ("c", &["10.0.0.9"])]);
        assert_eq!(two.clusters, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        let words = two.words();
        assert!(words.starts_with("10.0.0.3 is told by the clusters a and b (2 clusters"), "{words}");
        let same = overlap(&[("a", &["fd00::1"]), ("b", &["fd00:0::1"])]);
        assert_eq!(same.clusters.len(), 2, "however it is written");
    }

    #[test]
    fn many_overlaps_are_few_words_and_bounded() {
        let names: Vec<String> = (0..300).map(|at| format!("c{at}")).collect();
        let all: Vec<(&str, &[&str])> = names.iter().map(|name| (&**name, &["10.0.0.1"][..])).collect();
        let many = overlap(&all);
        assert_eq!(many.clusters.len(), 300);
        assert!(many.words().len() < 500, "{}", many.words());
        let addresses: Vec<String> =
            (0..70_000_u32).map(|at| std::net::Ipv4Addr::from(at).to_string()).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut shared = SharedAddresses::default();
        shared.take("a", &told(&addresses));
        assert_eq!(shared.first.len(), MOST);
    }
}

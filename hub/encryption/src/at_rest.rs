//! Values on their way to the disk and back, by the configuration in force.
//!
//! In: a resource, a storage key, a value. Out: what is stored of it; or the value, and whether it is to be written anew. A new
//! configuration is taken over whole or not at all. Until all values are written as it says, those before it go on reading, so that no
//! value is lost to a key that was dropped too early while this process runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::configuration::{Configuration, KMS_PREFIX, Key, Provider};
use crate::envelope::{self, Read, Unwritable};
use crate::failure::Failure;
use crate::kms::Kms;
use crate::symmetric::Random;

/// What every encrypted value begins with.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decrypted {
    /// The value.
    pub value: Bytes,
    /// Whether it would be written otherwise now.
    pub is_stale: bool,
}

/// What is wrong with key management services, all of them; `None`: there are none.
pub type Trouble = Option<Result<(), String>>;

/// The configuration in force, and those before it that values may still be under.
pub struct EncryptionProviders {
    /// The newest first.
    generations: ArcSwap<Vec<Arc<Generation>>>,
    random: Arc<Random>,
}

struct Generation {
    configuration: Configuration,
    services: BTreeMap<String, Arc<Kms>>,
}

/// What one provider makes of a stored value.
enum ReadAttempt {
    /// It is not of this provider.
    Other,
    Value(Decrypted),
    /// This is to be decrypted first, by a service that is, or is not, what the value would be written with.
    NeedsKms(Arc<Kms>, envelope::Sealed, bool),
    Refused(String),
}

impl EncryptionProviders {
    /// Values as `configuration` says. Key management services are not asked yet.
    ///
    /// # Errors
    /// The address of a service is none.
    pub fn new(configuration: Configuration, random: Arc<Random>) -> Result<EncryptionProviders, String> {
        let first = Arc::new(Generation::new(configuration, &[])?);
        Ok(EncryptionProviders { generations: ArcSwap::from_pointee(vec![first]), random })
    }

    /// Takes another configuration over. Its key management services must answer, or the one in force goes on.
    ///
    /// # Errors
    /// In words: an address in it is none, or a key management service of it does not answer.
    pub async fn adopt(&self, configuration: Configuration) -> Result<(), String> {
        let before = self.generations.load_full();
        let next = Generation::new(configuration, &before)?;
        for service in next.services.values() {
            service.check(&*self.random).await?;
        }
        let mut all = vec![Arc::new(next)];
        all.extend(before.iter().cloned());
        self.generations.store(Arc::new(all));
        Ok(())
    }

    /// Every value is as the newest configuration says: those before it are forgotten, with their keys.
    pub fn forget_older(&self) {
        let newest = self.newest();
        self.generations.store(Arc::new(vec![newest]));
    }

    /// Asks each key management service how it is. True: one has another key than before.
    ///
    /// # Errors
    /// In words: what is wrong with the first that is not well; all are asked.
    pub async fn check_services(&self) -> Result<bool, String> {
        let (mut changed, mut trouble) = (false, None);
        for service in self.newest().services.values() {
            match service.check(&*self.random).await {
                Ok(another) => changed |= another,
                Err(why) => trouble = trouble.or(Some(why)),
            }
        }
        trouble.map_or(Ok(changed), Err)
    }

    /// How the key management services were when they were asked last.
    pub fn services(&self) -> Trouble {
        let newest = self.newest();
        let all: Vec<String> = newest.services.values().filter_map(|service| service.trouble()).collect();
        let well = if all.is_empty() { Ok(()) } else { Err(all.join("; ")) };
        (!newest.services.is_empty()).then_some(well)
    }

    /// A number for how values are written now; never 0.
    pub fn layout(&self) -> u64 {
        let newest = self.newest();
        let mut digest = Sha256::new();
        digest.update(newest.configuration.layout());
        for (name, service) in &newest.services {
            digest.update(format!("{name}={}\n", service.seeds.key_id().unwrap_or_default()));
        }
        let digest: [u8; 32] = digest.finalize().into();
        digest.first_chunk().map_or(1, |first| u64::from_le_bytes(*first)).max(1)
    }

    /// What is stored of a value at `key`.
    ///
    /// # Errors
    /// A key management service is away for too long.
    pub fn seal(&self, group: &str, resource: &str, key: &str, value: Bytes) -> Result<Bytes, Failure> {
        let newest = self.newest();
        let Some((_, rule)) = newest.configuration.providers_of(group, resource) else { return Ok(value) };
        let place = key.as_bytes();
        let (prefix, sealed) = match rule.providers.first() {
            None | Some(Provider::Identity) => return Ok(value),
            Some(Provider::Keyed(cipher, keys)) => {
                let Some(first) = keys.first() else { return Ok(value) };
                let sealed = cipher.seal(&first.secret, place, &value, &*self.random);
                let failed =
                    |_| Failure::Unavailable(format!("{key:?} was not encrypted with key {:?}", first.name));
                (format!("{}{}:", cipher.prefix(), first.name), sealed.map_err(failed)?)
            }
            Some(Provider::Kms(plugin)) => {
                let service = newest.services.get(&plugin.name);
                let sealed = service.map_or(Err(Unwritable::Failed), |service| {
                    service.seeds.seal(place, &value, &*self.random, Instant::now())
                });
                let failed = |why| unwritable(&plugin.name, service.and_then(|s| s.trouble()), why);
                (format!("{}{}:", KMS_PREFIX, plugin.name), sealed.map_err(failed)?)
            }
        };
        let mut stored = Vec::with_capacity(prefix.len() + sealed.len());
        stored.extend_from_slice(prefix.as_bytes());
        stored.extend_from_slice(&sealed);
        Ok(stored.into())
    }

    /// The value of what is stored at `key`.
    ///
    /// # Errors
    /// No provider reads it, or the one that could is away.
    pub async fn open(
        &self,
        group: &str,
        resource: &str,
        key: &str,
        stored: &Bytes,
    ) -> Result<Decrypted, Failure> {
        let generations = self.generations.load_full();
        let mut refusals = Vec::new();
        for (age, generation) in generations.iter().enumerate() {
            for look in generation.look(group, resource, key, stored) {
                let look = match look {
                    ReadAttempt::NeedsKms(service, sealed, is_first) => {
                        service.unseal(&sealed).await?;
                        generation.by_service(&service, key, stored, is_first)
                    }
                    look => look,
                };
                match look {
                    ReadAttempt::Value(mut opened) => {
                        opened.is_stale |= age > 0;
                        return Ok(opened);
                    }
                    ReadAttempt::Refused(why) => refusals.push(why),
                    ReadAttempt::Other | ReadAttempt::NeedsKms(..) => {}
                }
            }
        }
        Err(Failure::Unreadable(unreadable(key, stored, &refusals)))
    }

    fn newest(&self) -> Arc<Generation> {
        // There is always one: the list is made with one, and only ever gets another before it.
        self.generations.load()[0].clone()
    }
}

impl Generation {
    fn new(configuration: Configuration, before: &[Arc<Generation>]) -> Result<Generation, String> {
        let mut services = BTreeMap::new();
        let providers = configuration.rules().iter().flat_map(|rule| &rule.providers);
        for plugin in providers.filter_map(|provider| match provider {
            Provider::Kms(plugin) => Some(plugin),
            _ => None,
        }) {
            // With the seeds that it has decrypted.
            let kept = before.iter().find_map(|old| old.services.get(&plugin.name));
            let service = match kept.filter(|kept| kept.plugin == *plugin) {
                Some(kept) => kept.clone(),
                None => Arc::new(Kms::new(plugin.clone())?),
            };
            services.insert(plugin.name.clone(), service);
        }
        Ok(Generation { configuration, services })
    }

    /// Tries the providers of the resource's own rule first, then those of all other rules, as a value may have been written under an older
    /// configuration. Plain text is accepted only where the resource's own rule lists `identity`.
    fn look<'a>(
        &'a self,
        group: &str,
        resource: &str,
        key: &'a str,
        stored: &'a Bytes,
    ) -> impl Iterator<Item = ReadAttempt> + use<'a> {
        let own = self.configuration.providers_of(group, resource);
        let index = own.map(|(index, _)| index);
        let in_clear = own.is_none().then(|| self.in_clear(stored, false));
        let own = own.into_iter().flat_map(|(_, rule)| rule.providers.iter().enumerate());
        let own = own.map(move |(n, provider)| match provider {
            Provider::Identity => self.in_clear(stored, n > 0),
            other => self.by(other, key, stored, n == 0),
        });
        let others = self.configuration.rules().iter().enumerate();
        let others = others.filter(move |(n, _)| Some(*n) != index).flat_map(|(_, rule)| &rule.providers);
        let others = others.map(move |provider| self.by(provider, key, stored, false));
        in_clear.into_iter().chain(own).chain(others)
    }

    fn in_clear(&self, stored: &Bytes, is_stale: bool) -> ReadAttempt {
        if stored.starts_with(ENCRYPTED) {
            return ReadAttempt::Other;
        }
        ReadAttempt::Value(Decrypted { value: stored.clone(), is_stale })
    }

    fn by(&self, provider: &Provider, key: &str, stored: &Bytes, is_first: bool) -> ReadAttempt {
        match provider {
            Provider::Identity => ReadAttempt::Other,
            Provider::Keyed(cipher, keys) => {
                let Some(rest) = stored.strip_prefix(cipher.prefix().as_bytes()) else {
                    return ReadAttempt::Other;
                };
                let mut look = ReadAttempt::Other;
                for (n, Key { name, secret }) in keys.iter().enumerate() {
                    let named = rest.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
                    let Some(sealed) = named else { continue };
                    match cipher.open(secret, key.as_bytes(), sealed) {
                        Ok(value) => {
                            let is_stale = !(is_first && n == 0);
                            return ReadAttempt::Value(Decrypted { value: value.into(), is_stale });
                        }
                        Err(_) => {
                            let prefix = cipher.prefix();
                            look = ReadAttempt::Refused(format!(
                                "{prefix}{name} of the configuration does not open it"
                            ));
                        }
                    }
                }
                look
            }
            Provider::Kms(plugin) => match self.services.get(&plugin.name) {
                Some(service) => self.by_service(service, key, stored, is_first),
                None => ReadAttempt::Other,
            },
        }
    }

    fn by_service(&self, service: &Arc<Kms>, key: &str, stored: &Bytes, is_first: bool) -> ReadAttempt {
        let name = &service.plugin.name;
        let rest = stored.strip_prefix(KMS_PREFIX.as_bytes());
        let named = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
        let Some(sealed) = named.and_then(|rest| rest.strip_prefix(b":")) else { return ReadAttempt::Other };
        match service.seeds.open(key.as_bytes(), sealed) {
            Ok(Read::Value(value, is_old)) => {
                ReadAttempt::Value(Decrypted { value: value.into(), is_stale: is_old || !is_first })
            }
            Ok(Read::Asks(sealed)) => ReadAttempt::NeedsKms(service.clone(), sealed, is_first),
            Err(_) => ReadAttempt::Refused(format!("what kms provider {name:?} decrypts does not open it")),
        }
    }
}

fn unwritable(name: &str, trouble: Option<String>, why: Unwritable) -> Failure {
    let trouble = trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
    Failure::Unavailable(match why {
        Unwritable::Expired => format!(
            "nothing is encrypted with kms provider {name:?}, which has not said for three minutes that it is healthy{trouble}"
        ),
        Unwritable::Failed => format!("kms provider {name:?} did not encrypt{trouble}"),
    })
}

/// What is said of a value that nobody reads: as what it is stored, and who tried.
fn unreadable(key: &str, stored: &Bytes, refusals: &[String]) -> String {
    let why = match refusals {
        [] => "no provider of the encryption configuration reads it".to_owned(),
        all => all.join(", "),
    };
    match stored_as(stored) {
        Some(prefix) => format!("{key:?} is encrypted as {prefix:?}: {why}"),
        None => format!(
            "{key:?} is stored in clear, which the encryption configuration does not allow (identity is not among its providers)"
        ),
    }
}

/// The provider and key that an encrypted value names.
fn stored_as(stored: &[u8]) -> Option<String> {
    let head = &stored[..stored.len().min(200)];
    stored.starts_with(ENCRYPTED).then(|| {
        let mut colons = head.iter().enumerate().filter(|(_, byte)| **byte == b':');
        let end = colons.nth(4).map_or(head.len(), |(at, _)| at);
        String::from_utf8_lossy(&head[..end]).into_owned()
    })
}

#[cfg(test)]
mod tests;

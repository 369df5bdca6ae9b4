//! An issuer's keys as they were fetched last, and when they are fetched anew.
//!
//! In: a token, and a way to fetch. Out: whether the issuer signed it. Keys are fetched anew where those that are held did not sign the
//! token: the issuer may show another key, under a new name, under the same name or under none. Nothing is asked again within
//! [`PAUSE`] of the last asking, so that made-up tokens cost an issuer one request in that time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

use super::keys::{KeySet, KeyVerdict};
use super::unverified::Unverified;

/// How long nothing is asked of an issuer again.
const PAUSE: Duration = Duration::from_secs(10);

/// What is known of an issuer's keys.
#[derive(Default)]
pub(super) struct KeyCache {
    known: RwLock<Known>,
    /// One asks at a time.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    keys: Option<Arc<KeySet>>,
    asked: Option<Instant>,
}

impl KeyCache {
    /// Whether the issuer signed a token. `Err` says why not.
    pub(super) async fn signed<F>(
        &self,
        token: &Unverified<'_>,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<KeySet, String>>,
    {
        let before = self.known.read().keys.clone();
        let verdict = |keys: &Option<Arc<KeySet>>| {
            keys.as_ref().map_or(KeyVerdict::UnknownKey, |keys| keys.verify(token))
        };
        let verdict = match verdict(&before) {
            KeyVerdict::Good => KeyVerdict::Good,
            // The key that it names may be another one by now.
            KeyVerdict::Bad | KeyVerdict::UnknownKey => {
                self.refresh(before.as_ref(), fetch).await?;
                verdict(&self.known.read().keys.clone())
            }
        };
        match verdict {
            KeyVerdict::Good => Ok(()),
            KeyVerdict::Bad => Err("the signature is not the issuer's".to_owned()),
            KeyVerdict::UnknownKey => Err("signed by a key that the issuer does not show".to_owned()),
        }
    }

    /// Fetches the keys, unless somebody did since `before` or a moment ago.
    pub(super) async fn refresh<F>(
        &self,
        before: Option<&Arc<KeySet>>,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<KeySet, String>>,
    {
        let _alone = self.asking.lock().await;
        {
            let known = self.known.read();
            let newer = match (&known.keys, before) {
                (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
                (now, _) => now.is_some() && before.is_none(),
            };
            if newer || known.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
                return Ok(());
            }
        }
        self.known.write().asked = Some(Instant::now());
        let keys = fetch().await;
        // Who waited meanwhile does not ask again, however long it took.
        self.known.write().asked = Some(Instant::now());
        let keys = Arc::new(keys?);
        self.known.write().keys = Some(keys);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::oidc::keys::tests::{Signer, shown};

    /// An issuer whose keys change, and how often it was asked.
    struct Issuer {
        fetched: KeyCache,
        asked: AtomicU32,
    }

    impl Issuer {
        fn new() -> Issuer {
            Issuer { fetched: KeyCache::default(), asked: AtomicU32::new(0) }
        }

        /// Whether `by` is taken as the signer of a token, while the issuer shows these keys.
        async fn takes(&self, by: &Signer, id: &str, shown_now: &[(&str, &Signer)]) -> bool {
            let text = by.token(id);
            let token = Unverified::read(&text).unwrap();
            let fetch = || async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Ok(shown(shown_now))
            };
            self.fetched.signed(&token, fetch).await.is_ok()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_key_under_the_same_name_or_none_is_fetched_and_the_one_before_refused() {
        for id in ["a", ""] {
            let (old, new, issuer) = (Signer::new(), Signer::new(), Issuer::new());
            assert!(issuer.takes(&old, id, &[(id, &old)]).await);
            tokio::time::advance(PAUSE).await;
            assert!(issuer.takes(&new, id, &[(id, &new)]).await, "fetched anew: {id:?}");
            assert!(!issuer.takes(&old, id, &[(id, &new)]).await, "withdrawn: {id:?}");
            assert_eq!(issuer.asked.load(Ordering::Relaxed), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn made_up_tokens_cost_the_issuer_one_request_in_a_pause() {
        let (own, stranger, issuer) = (Signer::new(), Signer::new(), Issuer::new());
        assert!(issuer.takes(&own, "a", &[("a", &own)]).await);
        for _ in 0..50 {
            assert!(!issuer.takes(&stranger, "a", &[("a", &own)]).await);
            assert!(!issuer.takes(&stranger, "b", &[("a", &own)]).await);
        }
        assert_eq!(issuer.asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(PAUSE).await;
        assert!(!issuer.takes(&stranger, "a", &[("a", &own)]).await);
        assert!(issuer.takes(&own, "a", &[]).await, "what is known needs no asking");
        assert_eq!(issuer.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_issuer_that_hangs_is_asked_by_one_and_not_by_all_who_wait() {
        let (stranger, issuer) = (Signer::new(), Issuer::new());
        let (text, asked) = (stranger.token("a"), &issuer.asked);
        let token = Unverified::read(&text).unwrap();
        let token = &token;
        let ask = || async {
            let fetch = || async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE * 2).await;
                Err("no answer".to_owned())
            };
            issuer.fetched.signed(token, fetch).await
        };
        let all = futures::future::join_all((0..20).map(|_| ask())).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(issuer.asked.load(Ordering::Relaxed), 1);
    }
}

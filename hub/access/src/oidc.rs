//! Tokens of OpenID Connect issuers: who their bearers are.
//!
//! In: which issuers are believed ([`IssuerOptions`]), a token. Out: the user its claims name, once the issuer's key signed it, it
//! is meant for this API, and the time is right. Keys come from the issuer's discovery document and are fetched anew when those
//! that are known did not sign a token, every ten seconds at most. Tokens are never logged.

mod cel_mappings;
mod claims;
mod configuration;
mod key_cache;
mod keys;
mod unverified;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_registry::webhook::{self, Target};
use karmada_registry::{Clock, User, apart};

use cel_mappings::Expressions;
use key_cache::KeyCache;
use keys::KeySet;
use unverified::Unverified;

/// How long an issuer may take to answer.
const WITHIN: Duration = Duration::from_secs(10);

/// An issuer that is believed, and how its claims are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerOptions {
    /// Its URL, which its tokens name.
    pub url: String,
    /// Where its discovery document is, if not below the URL.
    pub discovery_url: String,
    /// Who tokens may be meant for.
    pub audiences: Vec<String>,
    /// The claim that is the user name.
    pub username_claim: String,
    /// What is put before it; `None` for the issuer and `#`, unless the claim is `email`.
    pub username_prefix: Option<String>,
    /// The claim that holds the groups; empty for none.
    pub groups_claim: String,
    /// What is put before each.
    pub groups_prefix: String,
    /// The claim that is the uid; empty for none.
    pub uid_claim: String,
    /// Claims that must have these values.
    pub required_claims: BTreeMap<String, String>,
    /// PEM of the CAs of its certificate; empty for the system's.
    pub ca_pem: Vec<u8>,
    /// Signature algorithms that are taken.
    pub algorithms: Vec<String>,
    /// In place of a claim: CEL over `claims` that yields the user name.
    pub username_expression: String,
    /// The same for groups: a text, or a list of texts.
    pub groups_expression: String,
    /// The same for the uid.
    pub uid_expression: String,
    /// Further facts: a key, and the CEL that yields its values.
    pub extra: Vec<(String, String)>,
    /// CEL over `claims` that must hold, and what is said where it does not.
    pub claim_rules: Vec<(String, String)>,
    /// CEL over `user` that must hold, and what is said where it does not.
    pub user_rules: Vec<(String, String)>,
}

impl IssuerOptions {
    /// Reads an `AuthenticationConfiguration` file.
    ///
    /// # Errors
    /// In words: it cannot be read, or something in it is not allowed.
    pub fn read_configuration(text: &str) -> Result<(Vec<IssuerOptions>, Anonymous), String> {
        configuration::read(text)
    }
}

/// Where who shows no credential is let in as `system:anonymous`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// On every path.
    #[default]
    Everywhere,
    /// On the paths listed, and on no other.
    At(Vec<String>),
    /// Nowhere.
    Nowhere,
}

impl Anonymous {
    /// Whether they are let in on a path.
    pub fn allows(&self, path: &str) -> bool {
        match self {
            Anonymous::Everywhere => true,
            Anonymous::At(paths) => paths.iter().any(|one| one == path),
            Anonymous::Nowhere => false,
        }
    }
}

struct Issuer {
    options: IssuerOptions,
    expressions: Expressions,
    keys: KeyCache,
}

/// Every issuer that is believed.
pub struct Issuers {
    issuers: Vec<Issuer>,
    clock: Clock,
}

impl Issuers {
    /// Believes these issuers; none is asked yet.
    ///
    /// # Errors
    /// An expression cannot be compiled.
    pub fn new(all: Vec<IssuerOptions>, clock: Clock) -> Result<Arc<Issuers>, String> {
        let issuer = |options| {
            let expressions = Expressions::compile(&options)?;
            Ok(Issuer { options, expressions, keys: KeyCache::default() })
        };
        let issuers = all.into_iter().map(issuer).collect::<Result<_, String>>()?;
        Ok(Arc::new(Issuers { issuers, clock }))
    }

    /// Asks each issuer for its keys, so that the first token need not wait.
    pub async fn warm(&self) {
        for issuer in &self.issuers {
            if let Err(why) = issuer.keys.refresh(None, || issuer.fetch()).await {
                tracing::warn!(issuer = issuer.options.url, %why, "the issuer's keys could not be fetched yet");
            }
        }
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// In words: its issuer is not believed, its signature or its claims are not taken, or the issuer's keys cannot be fetched.
    pub async fn user(&self, token: &str) -> Result<User, String> {
        let token = Unverified::read(token)?;
        let named = token.claims["iss"].as_str().unwrap_or_default();
        let issuer = self.issuers.iter().find(|issuer| issuer.options.url == named);
        let issuer = issuer.ok_or("of an issuer that is not believed")?;
        if !issuer.options.algorithms.contains(&token.algorithm) {
            return Err("signed by an algorithm that is not taken".to_owned());
        }
        issuer.keys.signed(&token, || issuer.fetch()).await?;
        apart(|| claims::user(&issuer.options, &issuer.expressions, &token.claims, (self.clock)()))
    }
}

impl Issuer {
    async fn fetch(&self) -> Result<KeySet, String> {
        let options = &self.options;
        let discovery = match options.discovery_url.as_str() {
            "" => format!("{}/.well-known/openid-configuration", options.url.trim_end_matches('/')),
            url => url.to_owned(),
        };
        let document = webhook::get(&Target::of_url(&discovery)?, &options.ca_pem, WITHIN).await?;
        let named = document["issuer"].as_str().unwrap_or_default();
        if named != options.url {
            return Err(format!("the issuer {:?} calls itself {named:?}", options.url));
        }
        let keys = document["jwks_uri"].as_str().ok_or("the discovery document names no jwks_uri")?;
        let keys = webhook::get(&Target::of_url(keys)?, &options.ca_pem, WITHIN).await?;
        Ok(KeySet::read(&keys))
    }
}

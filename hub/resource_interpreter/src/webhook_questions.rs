//! Webhooks that interpret resources, asked.
//!
//! In: ResourceInterpreterWebhookConfigurations; questions that the interpreter cannot answer without them. Out: the answers, in hand for who asks
//! again, and whoever listens is told of each that came. A question that is being asked is not asked twice; how many bytes of questions are under
//! way is bounded. Reconciles wait for nobody: they come again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use karmada_controller_runtime::typed::Transition;
use karmada_core::interpreter_webhook::configuration::{first, in_order};
use karmada_core::interpreter_webhook::{Layer, Webhook, WebhookConfiguration, answer};
use karmada_interpreter::question::Digest;
use karmada_interpreter::{Operation, Question};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::answer_cache::Kept;

/// Bytes of questions that are being asked at once, but for a single one that is larger.
const UNDER_WAY: usize = 64 << 20;

/// Questions that are being asked of one webhook at once: fewer than wait for one address before calls are refused, which would count as its failures.
const OF_ONE: usize = 256;

/// Bytes of a failure's words that are kept and logged: a webhook's own may be of any length.
const WORDS: usize = 1024;

/// Who can call webhooks.
#[async_trait::async_trait]
pub trait WebhookCaller: Send + Sync {
    /// Posts `body`, JSON, to where `client` says, a `clientConfig`, and returns the answer, of `most` bytes at most.
    ///
    /// # Errors
    /// In words: no connection, no trust, no time, a code other than 200, or the answer is too long.
    async fn post(&self, client: &Value, body: Bytes, within: Duration, most: usize)
    -> Result<Bytes, String>;
}

/// Questions that are asked at once for one who waits for all of them.
const AT_ONCE: usize = 16;

type Listener = Box<dyn Fn(&Question) + Send + Sync>;

/// The webhooks there are, what they answered, and who asks them.
#[derive(Default)]
pub struct InterpreterWebhooks {
    configurations: Mutex<BTreeMap<Arc<str>, Arc<WebhookConfiguration>>>,
    webhooks: RwLock<Vec<Arc<Webhook>>>,
    kept: Arc<Kept>,
    asking: Mutex<Asking>,
    caller: OnceLock<Arc<dyn WebhookCaller>>,
    listeners: RwLock<Vec<Listener>>,
}

/// What is being asked.
#[derive(Default)]
struct Asking {
    questions: BTreeMap<Digest, usize>,
    by_webhook: BTreeMap<String, usize>,
    bytes: usize,
}

/// Who waits for a question that another one asked looks whether it is answered this often.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of the beginning of a question.
enum Begun {
    Now(UnderWay),
    Already,
    /// Too much is being asked.
    Not,
}

/// A question that is being asked, until this is dropped.
struct UnderWay {
    webhooks: Arc<InterpreterWebhooks>,
    question: Arc<Question>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut asking = self.webhooks.asking.lock();
        let bytes = asking.questions.remove(&self.question.digest).unwrap_or_default();
        asking.bytes -= bytes;
        if let Entry::Occupied(mut of_one) = asking.by_webhook.entry(self.question.whom.clone()) {
            *of_one.get_mut() -= 1;
            if *of_one.get() == 0 {
                of_one.remove();
            }
        }
    }
}

impl InterpreterWebhooks {
    /// From now on webhooks are called by `caller`. The first to say so is believed.
    pub fn connect(&self, caller: Arc<dyn WebhookCaller>) {
        let _ = self.caller.set(caller);
    }

    /// Calls `hear` with every question that was answered, or failed, from now on.
    pub fn listen(&self, hear: impl Fn(&Question) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(hear));
    }

    /// Takes a change in; the layer that answers from now on, where there is any webhook.
    pub fn observe(&self, transition: &Transition<WebhookConfiguration>) -> Option<Layer> {
        let mut configurations = self.configurations.lock();
        match &transition.now {
            Some(now) => configurations.insert(transition.key.name.clone(), now.clone()),
            None => configurations.remove(&transition.key.name),
        };
        let webhooks = in_order(configurations.values().map(|one| &**one));
        self.webhooks.write().clone_from(&webhooks);
        (!webhooks.is_empty()).then(|| Layer::new(webhooks, self.kept.clone()))
    }

    /// Whether a webhook is asked this of a kind, where nobody before it answers.
    pub fn claims(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.asked(api_version, kind, operation).is_some()
    }

    /// What stands for the webhook that is asked this of a kind, where nobody before it answers ([`Webhook::identity`]).
    pub fn asked(&self, api_version: &str, kind: &str, operation: Operation) -> Option<String> {
        first(&self.webhooks.read(), api_version, kind, operation).map(|webhook| webhook.identity())
    }

    /// The kinds that webhooks name, each by apiVersion and kind.
    pub fn named_kinds(&self) -> BTreeSet<(String, String)> {
        self.webhooks.read().iter().flat_map(|webhook| webhook.named_kinds()).collect()
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        !self.webhooks.read().is_empty()
    }

    /// Begins a question, where no more than `most` are being asked of its webhook.
    fn begin(self: &Arc<Self>, question: &Arc<Question>, most: usize) -> Begun {
        let mut asking = self.asking.lock();
        let bytes = question.body.len();
        if asking.questions.contains_key(&question.digest) {
            return Begun::Already;
        }
        if asking.bytes + bytes > UNDER_WAY && !asking.questions.is_empty() {
            return Begun::Not;
        }
        let of_one = asking.by_webhook.entry(question.whom.clone()).or_default();
        if *of_one >= most {
            return Begun::Not;
        }
        *of_one += 1;
        asking.questions.insert(question.digest, bytes);
        asking.bytes += bytes;
        Begun::Now(UnderWay { webhooks: self.clone(), question: question.clone() })
    }

    /// Puts a question for a site, and returns when it is known what became of it. False where too much is being asked just now: sites leave half of
    /// what may be asked of one webhook to the hub itself.
    pub async fn put_for_a_site(self: &Arc<Self>, question: &Arc<Question>) -> bool {
        match self.begin(question, OF_ONE / 2) {
            Begun::Not => return false,
            Begun::Now(under_way) => {
                self.put(question).await;
                drop(under_way);
            }
            // No longer than its webhook may take.
            Begun::Already => {
                while self.asking.lock().questions.contains_key(&question.digest) {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
        true
    }

    /// Has a question asked, unless it is already. False where too much is being asked just now.
    pub fn ask(self: &Arc<Self>, question: &Arc<Question>) -> bool {
        let under_way = match self.begin(question, OF_ONE) {
            Begun::Now(under_way) => under_way,
            Begun::Already => return true,
            Begun::Not => return false,
        };
        tokio::spawn(async move {
            let (webhooks, question) = (under_way.webhooks.clone(), under_way.question.clone());
            webhooks.put(&question).await;
            // Before anybody hears of it: who is woken may have another question of the same.
            drop(under_way);
            webhooks.listeners.read().iter().for_each(|hear| hear(&question));
        });
        true
    }

    /// Puts questions, and returns when it is known what became of each.
    pub async fn put_all(&self, questions: Vec<Arc<Question>>) {
        let all = futures::stream::iter(questions);
        all.for_each_concurrent(AT_ONCE, |question| async move { self.put(&question).await }).await;
    }

    /// Puts a question and keeps what became of it. One whose webhook is gone is of nobody's interest any more.
    async fn put(&self, question: &Question) {
        // Of this content: another one of its name would be believed as if it were this.
        let is_asked = |webhook: &&Arc<Webhook>| {
            webhook.whom == question.whom && webhook.webhook_digest == question.webhook_digest
        };
        let found = self.webhooks.read().iter().find(is_asked).cloned();
        let Some(webhook) = found else { return };
        let called = match self.caller.get() {
            Some(caller) => {
                let body = Bytes::from(question.body.clone());
                caller.post(&webhook.client, body, webhook.within, answer::LONGEST).await
            }
            None => Err("nobody calls webhooks here".to_owned()),
        };
        let said = called.and_then(|bytes| answer::read(question, &bytes).map(|said| (said, bytes.len())));
        match said {
            Ok((said, bytes)) => self.kept.said(question.digest, said, bytes),
            Err(why) => {
                let why = format!(
                    "failed calling webhook {:?}, {}: {why}",
                    question.whom,
                    question.operation.name()
                );
                let why: String = why.chars().take(WORDS).collect();
                tracing::warn!(kind = question.kind, namespace = question.namespace, name = question.name, %why, "a resource cannot be interpreted");
                self.kept.failed(question.digest, why);
            }
        }
    }
}

//! What quotas of a member's namespaces leave: a bound on replicas and sets beside the nodes.
//!
//! In: ResourceQuotas, trimmed; what is asked for and what is assumed. Out: how often it goes into what is left.
//!
//! A quota without scopes holds for every pod, one with scopes for the pods that any of them means. Only priority
//! classes can be told of a pod that does not exist yet; other scopes mean none. `cpu` and `requests.cpu` both bound
//! what is requested, each with its own remainder, so the smaller counts where a quota has both. Limits are not told
//! of what is asked for, so `limits.cpu` is no bound, and neither are counts of objects.

use karmada_api::binding::ResourceList;
use karmada_api::object;
use karmada_quantity::Quantity;
use serde_json::Value;

use super::Ask;
use super::free::{bounding, whole};
use crate::pod_request::resource_list;

/// What of a ResourceQuota matters: small enough to keep one per quota of the member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    /// Its namespace.
    pub namespace: String,
    /// Which pods it holds for; none where it holds for all.
    scopes: Option<Vec<PriorityScope>>,
    /// What it leaves of each resource, below nothing where more is used than allowed.
    left: ResourceList,
}

/// Pods by their priority class.
#[derive(Clone, Debug, PartialEq)]
enum PriorityScope {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Quota {
    /// Reads a quota. A resource that is not counted yet is not bounded yet; amounts that cannot be read are no bound.
    pub fn of(quota: &Value) -> Self {
        let list = |path: &str| resource_list(quota.pointer(path)).unwrap_or_default();
        let (hard, used) = (list("/status/hard"), list("/status/used"));
        let mut left = ResourceList::new();
        for (name, hard) in &hard {
            let (Some(asked), Some(used)) = (asked_for(name), used.get(name)) else { continue };
            let more = hard.minus(*used);
            let least = left.get(asked).map_or(more, |known: &Quantity| more.min(*known));
            left.insert(asked.to_owned(), least);
        }
        Self { namespace: object::namespace(quota).to_owned(), scopes: scopes(quota), left }
    }

    fn holds_for(&self, priority_class: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|scope| scope.means(priority_class)))
    }

    /// What so many pods count against it.
    fn share(&self, name: &str, asks: &[Ask<'_>]) -> i64 {
        let meant = asks.iter().filter(|ask| self.holds_for(ask.priority_class));
        meant.fold(0, |sum: i64, ask| {
            let amount = ask.request.get(name).map_or(0, |amount| whole(name, *amount).max(0));
            sum.saturating_add(amount.saturating_mul(ask.count))
        })
    }

    /// How often `asks` go into what it leaves. Where it holds for any of them, that is nothing once what is assumed is
    /// more than it leaves of anything, whether asked for or not.
    fn times(&self, asks: &[Ask<'_>], assumed: &[(&str, Vec<Ask<'_>>)]) -> i64 {
        let mut least = i64::MAX;
        if !asks.iter().any(|ask| self.holds_for(ask.priority_class)) {
            return least;
        }
        for (name, left) in &self.left {
            let here = assumed.iter().filter(|(namespace, _)| *namespace == self.namespace);
            let taken = here.fold(0, |sum: i64, (_, asks)| sum.saturating_add(self.share(name, asks)));
            let left = whole(name, *left).max(0);
            if taken > left {
                return 0;
            }
            let share = self.share(name, asks);
            if share > 0 {
                least = least.min((left - taken) / share);
            }
        }
        least
    }
}

/// The resource of requests that a quota bounds under `name`; none where it bounds something else.
fn asked_for(name: &str) -> Option<&str> {
    name.strip_prefix("requests.").or_else(|| Some(name).filter(|name| bounding(name)))
}

impl PriorityScope {
    /// Reads a selector of scopes; none where it means no pod that could be told.
    fn of(selector: &Value) -> Option<Self> {
        let text = |key: &str| selector.get(key).and_then(Value::as_str).unwrap_or("");
        let values = selector.get("values").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
        match (text("scopeName"), text("operator"), values.is_empty()) {
            ("PriorityClass", "In", false) => Some(Self::In(values)),
            ("PriorityClass", "NotIn", false) => Some(Self::NotIn(values)),
            ("PriorityClass", "Exists", true) => Some(Self::Exists),
            ("PriorityClass", "DoesNotExist", true) => Some(Self::DoesNotExist),
            _ => None,
        }
    }

    fn means(&self, priority_class: &str) -> bool {
        let listed = |values: &[String]| values.iter().any(|value| value == priority_class);
        match self {
            Self::In(values) => listed(values),
            Self::NotIn(values) => !listed(values),
            Self::Exists => !priority_class.is_empty(),
            Self::DoesNotExist => priority_class.is_empty(),
        }
    }
}

fn scopes(quota: &Value) -> Option<Vec<PriorityScope>> {
    let list = |path: &str| quota.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let named =
        list("/spec/scopes").map(|scope| (*scope == "PriorityClass").then_some(PriorityScope::Exists));
    let selected = list("/spec/scopeSelector/matchExpressions").map(PriorityScope::of);
    let all: Vec<Option<PriorityScope>> = named.chain(selected).collect();
    (!all.is_empty()).then(|| all.into_iter().flatten().collect())
}

/// How often `asks` go into what is left of every quota that `applies`.
pub(super) fn bound(
    quotas: &[Quota],
    applies: impl Fn(&Quota) -> bool,
    asks: &[Ask<'_>],
    assumed: &[(&str, Vec<Ask<'_>>)],
) -> i64 {
    let times = quotas.iter().filter(|quota| applies(quota)).map(|quota| quota.times(asks, assumed));
    times.min().unwrap_or(i64::MAX)
}

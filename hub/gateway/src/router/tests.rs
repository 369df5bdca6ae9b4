//! The router against a model: whatever is written, routed, forgotten, opened, read and cut in whatever order, each session comes to
//! what there is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::Waker;

use futures::StreamExt;
use proptest::prelude::*;

use super::*;

const NAMESPACES: [&str; 3] = ["north", "south", "west"];
/// Works that may wait for a session; less than there are.
const MOST: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    namespace: &'static str,
    key: Arc<str>,
    revision: u64,
    removed: bool,
}

impl Change for Write {
    fn key(&self) -> &Arc<str> {
        &self.key
    }
    fn revision(&self) -> u64 {
        self.revision
    }
    fn follows(&mut self, _: &Self) {}
}

#[derive(Debug, Clone)]
enum Step {
    Put(usize, u8),
    Remove(usize, u8),
    /// The router goes on by so many writes.
    Route(u8),
    /// History keeps only so many of the last writes.
    Forget(u8),
    /// A session opens, in place of the one there is. What happens before and after it reads history comes with it.
    Open(usize, bool, Vec<Step>, Vec<Step>),
    /// So many changes are read.
    Read(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let plain = prop_oneof![
        4 => (0..3usize, 0..5u8).prop_map(|(at, key)| Step::Put(at, key)),
        2 => (0..3usize, 0..5u8).prop_map(|(at, key)| Step::Remove(at, key)),
        4 => (1..6u8).prop_map(Step::Route),
        1 => (0..8u8).prop_map(Step::Forget),
    ];
    let meanwhile = prop::collection::vec(plain.clone(), 0..4);
    prop_oneof![
        6 => plain,
        3 => (0..3usize, any::<bool>(), meanwhile.clone(), meanwhile)
            .prop_map(|(at, fresh, before, after)| Step::Open(at, fresh, before, after)),
        4 => (0..3usize, 0..6u8).prop_map(|(at, count)| Step::Read(at, count)),
    ]
}

/// The store, its history, and how far the router has come.
#[derive(Default)]
struct Hub {
    writes: Vec<Write>,
    /// Writes up to here are not kept any more.
    dropped: u64,
    routed: u64,
}

impl Hub {
    fn revision(&self) -> u64 {
        self.writes.last().map_or(0, |write| write.revision)
    }

    fn write(&mut self, namespace: &'static str, key: u8, removed: bool) {
        let key: Arc<str> = format!("w{key}").into();
        if removed && !live(&self.writes, namespace).contains_key(&key) {
            return;
        }
        let revision = self.revision() + 1;
        self.writes.push(Write { namespace, key, revision, removed });
    }

    fn route(&mut self, router: &Router<Write>, count: usize) {
        if self.routed < self.dropped {
            self.routed = self.revision();
            router.lose_place();
        }
        let routed = self.routed;
        for write in self.writes.iter().filter(|write| write.revision > routed).take(count) {
            router.route(write.namespace, write);
            self.routed = write.revision;
        }
    }
}

fn live(writes: &[Write], namespace: &str) -> BTreeMap<Arc<str>, u64> {
    let mut live = BTreeMap::new();
    for write in writes.iter().filter(|write| write.namespace == namespace) {
        match write.removed {
            true => drop(live.remove(&write.key)),
            false => drop(live.insert(write.key.clone(), write.revision)),
        }
    }
    live
}

/// History, while other things happen.
struct Busy<'a> {
    hub: &'a RefCell<Hub>,
    router: &'a Arc<Router<Write>>,
    before: &'a [Step],
    after: &'a [Step],
}

impl Busy<'_> {
    fn while_others_act<T>(&self, read: impl FnOnce(&Hub) -> T) -> T {
        self.before.iter().for_each(|step| act(self.hub, self.router, step));
        let read = read(&self.hub.borrow());
        self.after.iter().for_each(|step| act(self.hub, self.router, step));
        read
    }
}

impl History<Write> for Busy<'_> {
    fn after(&self, namespace: &str, revision: u64) -> Option<Read<Write>> {
        self.while_others_act(|hub| {
            let newer = hub.writes.iter().filter(|write| write.revision > revision);
            let items = newer.filter(|write| write.namespace == namespace).cloned().collect();
            (revision >= hub.dropped).then(|| Read { items, revision: hub.revision().max(revision) })
        })
    }

    fn all(&self, namespace: &str) -> Read<Write> {
        self.while_others_act(|hub| {
            let items = live(&hub.writes, namespace).into_iter().map(|(key, revision)| Write {
                namespace: "",
                key,
                revision,
                removed: false,
            });
            Read { items: items.collect(), revision: hub.revision() }
        })
    }
}

fn act(hub: &RefCell<Hub>, router: &Arc<Router<Write>>, step: &Step) {
    let mut hub = hub.borrow_mut();
    match step {
        Step::Put(at, key) => hub.write(NAMESPACES[*at], *key, false),
        Step::Remove(at, key) => hub.write(NAMESPACES[*at], *key, true),
        Step::Route(count) => hub.route(router, usize::from(*count)),
        Step::Forget(kept) => hub.dropped = hub.dropped.max(hub.revision().saturating_sub(u64::from(*kept))),
        Step::Open(..) | Step::Read(..) => {}
    }
}

/// One site: what it was told, and how far.
#[derive(Default)]
struct Site {
    holds: BTreeMap<Arc<str>, u64>,
    seen: u64,
    route: Option<Route<Write>>,
}

impl Site {
    fn open(&mut self, router: &Arc<Router<Write>>, namespace: &str, resume: Option<u64>, busy: &Busy<'_>) {
        self.route = None;
        let opened = router.open(namespace, resume, busy);
        if opened.full_listing {
            self.holds = opened.first.items.into_iter().map(|write| (write.key, write.revision)).collect();
        } else {
            opened.first.items.into_iter().for_each(|write| self.told(write));
        }
        self.seen = opened.first.revision;
        self.route = Some(opened.then);
    }

    fn told(&mut self, write: Write) {
        assert!(write.revision > self.seen, "revisions rise: {write:?} after {}", self.seen);
        self.seen = write.revision;
        match write.removed {
            true => drop(self.holds.remove(&write.key)),
            false => drop(self.holds.insert(write.key, write.revision)),
        }
    }

    /// Reads at most so many changes; false where the route has ended.
    fn read(&mut self, count: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..count {
            let Some(route) = &mut self.route else { return false };
            match route.poll_next_unpin(&mut cx) {
                Poll::Ready(Some(write)) => self.told(write),
                Poll::Ready(None) => return false,
                Poll::Pending => return true,
            }
        }
        true
    }
}

fn played(steps: &[Step]) -> Result<(), TestCaseError> {
    let (hub, router) = (RefCell::new(Hub::default()), Router::new(MOST));
    let mut sites: [Site; 3] = Default::default();
    for step in steps {
        match step {
            Step::Open(at, fresh, before, after) => {
                let busy = Busy { hub: &hub, router: &router, before, after };
                let resume = (!fresh).then_some(sites[*at].seen);
                sites[*at].open(&router, NAMESPACES[*at], resume, &busy);
            }
            Step::Read(at, count) => drop(sites[*at].read(usize::from(*count))),
            step => act(&hub, &router, step),
        }
    }
    hub.borrow_mut().route(&router, usize::MAX);
    for (site, namespace) in sites.iter_mut().zip(NAMESPACES) {
        let calm = Busy { hub: &hub, router: &router, before: &[], after: &[] };
        while !site.read(usize::MAX) {
            site.open(&router, namespace, Some(site.seen), &calm);
        }
        prop_assert_eq!(&site.holds, &live(&hub.borrow().writes, namespace), "{}", namespace);
    }
    drop(sites);
    prop_assert!(router.slots.lock().is_empty(), "who left is forgotten");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_session_misses_a_change_whatever_happens_meanwhile(steps in prop::collection::vec(step(), 0..80)) {
        played(&steps)?;
    }
}

fn write(key: &str, revision: u64) -> Write {
    Write { namespace: "north", key: key.into(), revision, removed: false }
}

#[test]
fn what_changes_often_waits_once_and_too_much_ends_the_route() {
    let router = Router::new(MOST);
    let mut route = router.enter("north");
    let mut cx = Context::from_waker(Waker::noop());
    for revision in 1..=100 {
        router.route("north", &write("a", revision));
        router.route("south", &write("b", revision));
    }
    assert_eq!(route.poll_next_unpin(&mut cx), Poll::Ready(Some(write("a", 100))));
    assert_eq!(route.poll_next_unpin(&mut cx), Poll::Pending);
    for (revision, key) in (101..).zip(["a", "b", "c", "d", "e"]) {
        router.route("north", &write(key, revision));
    }
    assert_eq!(route.poll_next_unpin(&mut cx), Poll::Ready(None), "it holds no more than it may");
}

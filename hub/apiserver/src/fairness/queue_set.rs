//! Seats and fair queues of one priority level, as a state machine.
//!
//! In: arrivals, departures and new limits, each with the time (nanoseconds since some beginning). Out: who may run. Pure.
//!
//! Each flow is dealt a hand of queues and joins the shortest of them, so that one flow fills a few queues and not all (shuffle sharding).
//! Queues take turns by start-time fair queuing: each has a virtual time at which its next request would start, raised by the seats and
//! seconds its requests used; the lowest goes first, and nobody overtakes it. A queue that was idle begins at the present virtual time: it
//! saves nothing up, and it is served next.
//!
//! A flow that has nothing under way does not wait with one light request: it is lent a seat, and as many are lent as there are
//! seats. So a client that asks for one thing at a time is answered at once, however long the seats are taken by others.

use std::collections::{BTreeMap, VecDeque};

/// A request that runs or waits.
pub(super) type Ticket = u64;

/// What a request is taken to need until it is known: a millisecond of its seats.
const GUESS: u64 = 1_000_000;

/// What a level allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Seats.
    pub seats: u32,
    /// Queues; with none a request that finds no seat is rejected.
    pub queues: usize,
    /// Queues that a flow may use.
    pub hand: usize,
    /// Requests that one queue holds.
    pub length: usize,
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has its seats.
    Runs(Ticket),
    /// It is queued.
    Waits(Ticket),
    /// It finds neither seat nor place.
    Rejected,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Ticket, u32)>,
    /// Seats of all that wait and run.
    work: u64,
    /// When its next request starts, in virtual time.
    next: u64,
}

#[derive(Debug)]
struct Running {
    queue: Option<usize>,
    flow: u64,
    width: u32,
    since: u64,
    /// On a seat beyond those that there are.
    lent: bool,
}

/// Seats and queues.
#[derive(Debug)]
pub(super) struct QueueSet {
    limits: Limits,
    queues: Vec<Queue>,
    taken: u32,
    lent: u32,
    running: BTreeMap<Ticket, Running>,
    /// Where each waiting request waits, and whose it is.
    waiting: BTreeMap<Ticket, (usize, u64)>,
    /// Requests under way, waiting or running, of each flow that has any.
    flows: BTreeMap<u64, usize>,
    /// The virtual time: the start of what was started last.
    time: u64,
    next_ticket: Ticket,
}

/// The hand of queues that a flow is dealt: `hand` different ones of `queues`, the same every time.
fn deal(flow: u64, queues: usize, hand: usize) -> Vec<usize> {
    let (mut rest, mut dealt) = (flow, Vec::with_capacity(hand));
    for number in 0..hand.min(queues) {
        let left = (queues - number) as u64;
        let mut card = (rest % left) as usize;
        rest /= left;
        // The card's place among those that are left.
        let mut before: Vec<usize> = dealt.clone();
        before.sort_unstable();
        for taken in before {
            if card >= taken {
                card += 1;
            }
        }
        dealt.push(card);
    }
    dealt
}

impl QueueSet {
    pub(super) fn new(limits: Limits) -> QueueSet {
        let mut set = QueueSet {
            limits,
            queues: Vec::new(),
            taken: 0,
            lent: 0,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            flows: BTreeMap::new(),
            time: 0,
            next_ticket: 0,
        };
        set.queues.resize_with(limits.queues, Queue::default);
        set
    }

    /// Seats there are.
    pub(super) fn seats(&self) -> u32 {
        self.limits.seats
    }

    /// Seats that are taken.
    pub(super) fn seats_taken(&self) -> u32 {
        self.taken
    }

    /// Changes the limits; answers whom that lets run.
    pub(super) fn set_limits(&mut self, limits: Limits, now: u64) -> Vec<Ticket> {
        self.limits = limits;
        // Queues that are dealt no more are kept until they are empty: they are few, and nobody waits in vain.
        if self.queues.len() < limits.queues {
            self.queues.resize_with(limits.queues, Queue::default);
        }
        self.start(now)
    }

    /// Whether a flow has more under way than it has queues.
    pub(super) fn crowds(&self, flow: u64) -> bool {
        self.limits.hand > 0 && self.flows.get(&flow).is_some_and(|under_way| *under_way >= self.limits.hand)
    }

    /// A request of a flow arrives; answers what becomes of it, and whom else that lets run: one more that waits in a queue can
    /// make it another's turn.
    pub(super) fn arrive(&mut self, flow: u64, width: u32, now: u64) -> (Arrival, Vec<Ticket>) {
        let ticket = self.next_ticket;
        let dealt = deal(flow, self.limits.queues, self.limits.hand.max(1));
        let shortest = dealt.into_iter().min_by_key(|at| self.queues[*at].work);
        let Some(at) = shortest else {
            if !self.has_seats(width) {
                return (Arrival::Rejected, Vec::new());
            }
            self.next_ticket += 1;
            self.run(ticket, Running { queue: None, flow, width, since: now, lent: false });
            return (Arrival::Runs(ticket), Vec::new());
        };
        let is_first = width == 1 && !self.flows.contains_key(&flow);
        let is_free = self.has_seats(width) && self.waiting.is_empty();
        if is_first && !is_free && self.lent < self.limits.seats {
            self.next_ticket += 1;
            self.run(ticket, Running { queue: None, flow, width, since: now, lent: true });
            return (Arrival::Runs(ticket), Vec::new());
        }
        let queue = &mut self.queues[at];
        if queue.waiting.len() >= self.limits.length {
            return (Arrival::Rejected, Vec::new());
        }
        self.next_ticket += 1;
        // Only a queue in which somebody waits keeps an earlier place; an idle one begins at the present.
        if queue.waiting.is_empty() {
            queue.next = queue.next.max(self.time);
        }
        queue.waiting.push_back((ticket, width));
        queue.work += u64::from(width);
        self.waiting.insert(ticket, (at, flow));
        *self.flows.entry(flow).or_default() += 1;
        let mut others = self.start(now);
        let before = others.len();
        others.retain(|started| *started != ticket);
        let arrival = if others.len() < before { Arrival::Runs(ticket) } else { Arrival::Waits(ticket) };
        (arrival, others)
    }

    /// A request is done, or gave up waiting; answers whom that lets run.
    pub(super) fn leave(&mut self, ticket: Ticket, now: u64) -> Vec<Ticket> {
        if let Some((at, flow)) = self.waiting.remove(&ticket) {
            self.forget(flow);
            let queue = &mut self.queues[at];
            if let Some(place) = queue.waiting.iter().position(|(waiting, _)| *waiting == ticket)
                && let Some((_, width)) = queue.waiting.remove(place)
            {
                queue.work -= u64::from(width);
            }
        } else if let Some(done) = self.running.remove(&ticket) {
            self.forget(done.flow);
            match done.lent {
                true => self.lent -= done.width,
                false => self.taken -= done.width,
            }
            if let Some(at) = done.queue {
                let queue = &mut self.queues[at];
                queue.work -= u64::from(done.width);
                // What it took beyond the guess is charged now; what it did not need is given back.
                let used = now.saturating_sub(done.since).saturating_mul(done.width.into());
                queue.next = queue.next.saturating_add(used).saturating_sub(GUESS * u64::from(done.width));
            }
        }
        self.start(now)
    }

    /// A request wider than all seats runs alone.
    fn has_seats(&self, width: u32) -> bool {
        self.taken == 0 || self.taken + width <= self.limits.seats
    }

    fn run(&mut self, ticket: Ticket, running: Running) {
        match running.lent {
            true => self.lent += running.width,
            false => self.taken += running.width,
        }
        *self.flows.entry(running.flow).or_default() += 1;
        self.running.insert(ticket, running);
    }

    /// One request of the flow is no longer under way.
    fn forget(&mut self, flow: u64) {
        if let Some(under_way) = self.flows.get_mut(&flow) {
            *under_way -= 1;
            if *under_way == 0 {
                self.flows.remove(&flow);
            }
        }
    }

    /// Starts what may run: always the first of the queue whose turn it is, as long as it fits.
    fn start(&mut self, now: u64) -> Vec<Ticket> {
        let mut started = Vec::new();
        if self.waiting.is_empty() {
            return started;
        }
        while let Some(at) = self.turn() {
            let Some((ticket, width)) = self.queues[at].waiting.front().copied() else { break };
            if !self.has_seats(width) {
                break;
            }
            let queue = &mut self.queues[at];
            queue.waiting.pop_front();
            self.time = self.time.max(queue.next);
            queue.next = queue.next.saturating_add(GUESS * u64::from(width));
            let flow = self.waiting.remove(&ticket).map_or(0, |(_, flow)| flow);
            self.run(ticket, Running { queue: Some(at), flow, width, since: now, lent: false });
            self.forget(flow);
            started.push(ticket);
        }
        started
    }

    /// The queue whose turn it is: the lowest virtual start; of several, the one in which the fewest wait.
    fn turn(&self) -> Option<usize> {
        let waiting = self.queues.iter().enumerate();
        let waiting = waiting
            .filter_map(|(at, queue)| Some((queue.next, queue.waiting.len(), queue.waiting.front()?.0, at)));
        waiting.min().map(|(_, _, _, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    fn limits(seats: u32, queues: usize, hand: usize, length: usize) -> Limits {
        Limits { seats, queues, hand, length }
    }

    /// An arrival that lets nobody else run.
    fn arrives(set: &mut QueueSet, flow: u64, width: u32, now: u64) -> Arrival {
        let (arrival, others) = set.arrive(flow, width, now);
        assert!(others.is_empty(), "{others:?}");
        arrival
    }

    #[test]
    fn an_arrival_that_makes_it_anothers_turn_says_so() {
        let mut set = QueueSet::new(limits(3, 8, 1, 10));
        let Arrival::Runs(_) = arrives(&mut set, 0, 2, 0) else { panic!() };
        let Arrival::Waits(_) = arrives(&mut set, 1, 2, 0) else {
            panic!("it is too wide for the seat that is left")
        };
        let Arrival::Runs(_lent) = arrives(&mut set, 2, 1, 0) else { panic!() };
        let Arrival::Waits(narrow) = arrives(&mut set, 2, 1, 0) else { panic!("it is behind the wide one") };
        // The wide one's queue is the longer now: it is the turn of the other.
        let (Arrival::Waits(_), others) = set.arrive(1, 1, 0) else { panic!() };
        assert_eq!(others, [narrow]);
    }

    #[test]
    fn a_hand_is_of_different_queues_and_always_the_same() {
        for flow in [0, 1, 12_345, u64::MAX] {
            let hand = deal(flow, 64, 6);
            let different: std::collections::BTreeSet<_> = hand.iter().collect();
            assert_eq!((different.len(), hand.len()), (6, 6));
            assert!(hand.iter().all(|at| *at < 64));
            assert_eq!(hand, deal(flow, 64, 6));
        }
        assert_eq!(deal(7, 3, 6).len(), 3);
        assert!(deal(7, 0, 6).is_empty());
        assert_ne!(deal(1, 64, 6), deal(2, 64, 6));
    }

    #[test]
    fn without_queues_there_is_a_seat_or_nothing() {
        let mut set = QueueSet::new(limits(2, 0, 0, 0));
        assert!(!set.crowds(1));
        let Arrival::Runs(first) = arrives(&mut set, 1, 1, 0) else { panic!() };
        assert!(matches!(arrives(&mut set, 1, 1, 0), Arrival::Runs(_)));
        assert_eq!(arrives(&mut set, 2, 1, 0), Arrival::Rejected);
        assert!(set.leave(first, 1).is_empty());
        assert!(matches!(arrives(&mut set, 2, 1, 1), Arrival::Runs(_)));
    }

    #[test]
    fn as_many_seats_are_lent_as_there_are_and_to_light_requests_alone() {
        let mut set = QueueSet::new(limits(2, 8, 2, 10));
        let Arrival::Runs(held) = arrives(&mut set, 0, 2, 0) else { panic!() };
        assert!(matches!(arrives(&mut set, 1, 2, 0), Arrival::Waits(_)), "a wide one is not light");
        assert!(matches!(arrives(&mut set, 1, 1, 0), Arrival::Waits(_)), "it has one under way");
        let Arrival::Runs(lent) = arrives(&mut set, 2, 1, 0) else { panic!() };
        assert!(matches!(arrives(&mut set, 3, 1, 0), Arrival::Runs(_)));
        assert!(matches!(arrives(&mut set, 4, 1, 0), Arrival::Waits(_)), "two are lent");
        assert!(set.leave(lent, 1).is_empty());
        assert!(matches!(arrives(&mut set, 2, 1, 1), Arrival::Runs(_)), "once more");
        assert_eq!(set.leave(held, 2).len(), 1, "the wide one runs alone");
    }

    #[test]
    fn a_queue_in_which_nobody_waits_saves_nothing_up() {
        // One flow's long request runs on a queue of its own while the others' time goes on.
        let mut set = QueueSet::new(limits(2, 16, 1, 100));
        let (saver, busy) = (0, 1);
        let Arrival::Runs(_) = arrives(&mut set, saver, 1, 0) else { panic!() };
        let Arrival::Runs(mut running) = arrives(&mut set, busy, 1, 0) else { panic!() };
        let mut now = 0;
        for _ in 0..20 {
            let Arrival::Waits(next) = arrives(&mut set, busy, 1, now) else { panic!() };
            now += 1000 * MILLISECOND;
            assert_eq!(set.leave(running, now), [next]);
            running = next;
        }
        // Both ask for more: they take turns from now on, as neither waited before.
        let later: Vec<Ticket> = [saver, saver, saver, busy]
            .map(|flow| match arrives(&mut set, flow, 1, now) {
                Arrival::Waits(ticket) => ticket,
                _ => panic!(),
            })
            .into();
        let mut order = Vec::new();
        for _ in 0..2 {
            now += 1000 * MILLISECOND;
            let next = set.leave(running, now);
            running = next[0];
            order.push(running);
        }
        assert_eq!(order[0], later[0]);
        assert!(order.contains(&later[3]), "{order:?} of {later:?}");
    }

    #[test]
    fn a_flood_fills_its_own_queues_and_another_flow_is_served_next() {
        let mut set = QueueSet::new(limits(4, 64, 4, 10));
        let mut running = Vec::new();
        let (mut waits, mut rejected) = (0, 0);
        for number in 0..200 {
            assert_eq!(set.crowds(77), number >= 4, "four queues hold one each");
            match arrives(&mut set, 77, 1, 0) {
                Arrival::Runs(ticket) => running.push(ticket),
                Arrival::Waits(_) => waits += 1,
                Arrival::Rejected => rejected += 1,
            }
        }
        assert_eq!((running.len(), waits, rejected), (4, 40, 156));
        assert!(!set.crowds(1234));
        // Another flow comes last: its first request is lent a seat, its next gets the first that comes free.
        let Arrival::Runs(lent) = arrives(&mut set, 1234, 1, 10 * MILLISECOND) else { panic!() };
        let Arrival::Waits(other) = arrives(&mut set, 1234, 1, 10 * MILLISECOND) else { panic!() };
        assert_eq!(set.leave(running[0], 20 * MILLISECOND), [other]);
        assert!(set.leave(lent, 20 * MILLISECOND).is_empty(), "what was lent is nobody's");
    }

    #[test]
    fn two_floods_share_the_seats_by_the_work_they_do() {
        let mut set = QueueSet::new(limits(1, 16, 1, 1000));
        let (slow, fast) = (0, 1);
        assert_ne!(deal(slow, 16, 1), deal(fast, 16, 1));
        let mut owner = BTreeMap::new();
        let mut running = None;
        for number in 0..400 {
            let flow = if number % 2 == 0 { slow } else { fast };
            match arrives(&mut set, flow, 1, 0) {
                Arrival::Runs(ticket) if running.is_none() => {
                    owner.insert(ticket, flow);
                    running = Some(ticket);
                }
                // Its first is lent a seat, which it keeps.
                Arrival::Runs(_) => assert_eq!(number, 1),
                Arrival::Waits(ticket) => drop(owner.insert(ticket, flow)),
                Arrival::Rejected => panic!(),
            }
        }
        let (mut now, mut time) = (0, BTreeMap::from([(slow, 0), (fast, 0)]));
        for _ in 0..150 {
            let ticket = running.unwrap();
            let needs = if owner[&ticket] == slow { 30 } else { 10 } * MILLISECOND;
            now += needs;
            *time.get_mut(&owner[&ticket]).unwrap() += needs;
            running = set.leave(ticket, now).first().copied();
        }
        let share = time[&slow] as f64 / (time[&slow] + time[&fast]) as f64;
        assert!((0.4..0.6).contains(&share), "{share}");
    }

    #[test]
    fn wide_requests_are_not_overtaken_for_ever_and_run_alone_if_they_must() {
        let mut set = QueueSet::new(limits(3, 8, 1, 10));
        let Arrival::Runs(first) = arrives(&mut set, 0, 2, 0) else { panic!() };
        let Arrival::Waits(wide) = arrives(&mut set, 1, 9, 0) else { panic!() };
        let Arrival::Waits(narrow) = arrives(&mut set, 0, 1, 0) else { panic!("the narrow one overtakes") };
        assert_eq!(set.leave(first, 1), [wide]);
        assert_eq!(set.leave(wide, 2), [narrow]);
    }

    #[test]
    fn who_gives_up_leaves_no_trace_and_new_limits_count_at_once() {
        let mut set = QueueSet::new(limits(1, 4, 1, 10));
        let Arrival::Runs(first) = arrives(&mut set, 0, 1, 0) else { panic!() };
        let Arrival::Waits(second) = arrives(&mut set, 0, 1, 0) else { panic!() };
        let Arrival::Waits(third) = arrives(&mut set, 0, 1, 0) else { panic!() };
        assert!(set.leave(second, 1).is_empty());
        assert_eq!(set.set_limits(limits(2, 2, 1, 10), 2), [third]);
        assert!(set.leave(first, 3).is_empty());
        assert!(set.leave(third, 3).is_empty());
        assert_eq!((set.taken, set.running.len(), set.waiting.len()), (0, 0, 0));
        assert!(set.queues.iter().all(|queue| queue.work == 0 && queue.waiting.is_empty()));
    }

    proptest! {
        #[test]
        fn seats_are_kept_and_nobody_waits_beside_a_free_seat(
            steps in prop::collection::vec((0u8..3, 0u64..6, 1u32..4), 1..200)
        ) {
            let mut set = QueueSet::new(limits(5, 8, 2, 6));
            let mut known: Vec<Ticket> = Vec::new();
            for (now, (what, flow, width)) in steps.into_iter().enumerate() {
                let now = now as u64 * MILLISECOND;
                match what {
                    0 | 1 => match set.arrive(flow, width, now).0 {
                        Arrival::Runs(ticket) | Arrival::Waits(ticket) => known.push(ticket),
                        Arrival::Rejected => {}
                    },
                    _ if known.is_empty() => {}
                    _ => drop(set.leave(known.swap_remove(flow as usize % known.len()), now)),
                }
                let seats = |lent| set.running.values().filter(|r| r.lent == lent).map(|r| r.width).sum::<u32>();
                let taken = seats(false);
                prop_assert_eq!((taken, seats(true)), (set.taken, set.lent));
                prop_assert!(taken <= 5 && set.lent <= 5);
                prop_assert_eq!(set.flows.values().sum::<usize>(), known.len());
                let next = set.turn().and_then(|at| set.queues[at].waiting.front()).map(|(_, width)| *width);
                prop_assert!(next.is_none_or(|width| taken + width > 5));
                prop_assert_eq!(set.running.len() + set.waiting.len(), known.len());
            }
            for ticket in known {
                set.leave(ticket, u64::MAX / 4);
            }
            prop_assert_eq!((set.taken, set.lent, set.flows.len()), (0, 0, 0));
        }
    }
}

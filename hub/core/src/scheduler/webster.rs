//! Dividing seats by votes: Webster's method (Sainte-Laguë).
//!
//! In: how many seats, who has how many votes, who holds seats already. Out: everybody's seats, sorted by name. The
//! next seat goes to the highest votes / (2·seats + 1); on a tie to fewer seats, then by name, upwards or downwards as
//! the tie breaker says, so that not always the same cluster wins.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use karmada_api::names::fnv32a;

/// Above this many seats the bulk is handed out at once; the result is the same.
const ONE_BY_ONE: i64 = 1024;

/// One who votes were given to.
struct Party {
    name: String,
    votes: i64,
    seats: i64,
}

impl Party {
    /// The worth of a next seat when `seats` are held.
    fn worth(&self, seats: i64) -> f64 {
        self.votes as f64 / (2 * seats + 1) as f64
    }
}

/// Whether names count upwards on a tie: downwards where the hash of the template's uid is odd.
fn upwards(uid: &str) -> bool {
    uid.is_empty() || fnv32a(uid).is_multiple_of(2)
}

/// A party as it waits for its next seat: the greatest of all gets it.
struct Turn<'a> {
    party: &'a mut Party,
    upwards: bool,
}

impl Ord for Turn<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.party, &*other.party);
        let names = if self.upwards { b.name.cmp(&a.name) } else { a.name.cmp(&b.name) };
        a.worth(a.seats).total_cmp(&b.worth(b.seats)).then(b.seats.cmp(&a.seats)).then(names)
    }
}

impl PartialOrd for Turn<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn<'_> {}

/// Hands out so many seats one after the other.
fn hand_out_singly(parties: &mut [Party], seats: i64, upwards: bool) {
    let voters = parties.iter_mut().filter(|party| party.votes > 0);
    let mut turns: BinaryHeap<Turn<'_>> = voters.map(|party| Turn { party, upwards }).collect();
    for _ in 0..seats {
        let Some(mut next) = turns.peek_mut() else { return };
        next.party.seats += 1;
    }
}

/// Divides `seats` on top of those in `held`. Without votes or seats to divide, `held` comes back as it is.
/// Holders without votes keep their seats; voters with 0 votes get none.
pub fn divide(seats: i64, votes: &[(String, i64)], held: &[(String, i64)], uid: &str) -> Vec<(String, i64)> {
    if votes.iter().all(|(_, votes)| *votes <= 0) || (seats <= 0 && !held.is_empty()) {
        return held.to_vec();
    }
    let mut parties = parties(votes, held);
    let left = hand_out_bulk(&mut parties, seats);
    hand_out_singly(&mut parties, left, upwards(uid));
    parties.into_iter().map(|party| (party.name, party.seats)).collect()
}

/// Everybody once, sorted by name. Of one who holds seats twice the last counts; votes add up.
fn parties(votes: &[(String, i64)], held: &[(String, i64)]) -> Vec<Party> {
    let holders =
        held.iter().map(|(name, seats)| (Party { name: name.clone(), votes: 0, seats: *seats }, true));
    let voters = votes
        .iter()
        .map(|(name, votes)| (Party { name: name.clone(), votes: (*votes).max(0), seats: 0 }, false));
    let mut all: Vec<(Party, bool)> = holders.chain(voters).collect();
    // Mostly both stand by name: then this is a merge.
    all.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    all.dedup_by(|(next, holds), (kept, _)| {
        let same = next.name == kept.name;
        if same {
            kept.votes += next.votes;
            kept.seats = if *holds { next.seats } else { kept.seats };
        }
        same
    });
    all.into_iter().map(|(party, _)| party).collect()
}

/// Shares sorted by name, those of one name added up.
pub(super) fn summed_by_name(mut shares: Vec<(String, i64)>) -> Vec<(String, i64)> {
    shares.sort_by(|(a, _), (b, _)| a.cmp(b));
    shares.dedup_by(|(next, more), (kept, share)| {
        let same = next == kept;
        if same {
            *share += *more;
        }
        same
    });
    shares
}

/// How many more seats a party takes of those worth more than `limit`.
fn seats_above(party: &Party, limit: f64) -> i64 {
    if party.votes <= 0 {
        return 0;
    }
    // worth(s) > limit  ⇔  s < (votes / limit - 1) / 2
    let bound = ((party.votes as f64 / limit - 1.0) / 2.0).ceil();
    let mut total = (bound as i64).max(party.seats);
    // The division rounds: the worth of the seats beside the bound decides.
    while party.worth(total) > limit {
        total += 1;
    }
    while total > party.seats && party.worth(total - 1) <= limit {
        total -= 1;
    }
    total - party.seats
}

/// Gives everybody the seats that are worth more than some limit, and returns how many are left, few of them. The
/// seats handed out one by one are those of highest worth, so these come first in any order.
fn hand_out_bulk(parties: &mut [Party], seats: i64) -> i64 {
    if seats <= ONE_BY_ONE {
        return seats;
    }
    let total = |limit: f64| parties.iter().fold(0_i64, |sum, p| sum.saturating_add(seats_above(p, limit)));
    let mut high = parties.iter().map(|p| p.votes).max().unwrap_or(0) as f64;
    let mut low = 0.0_f64;
    for _ in 0..128 {
        let middle = f64::midpoint(low, high);
        if middle > 0.0 && total(middle) <= seats { high = middle } else { low = middle }
    }
    let mut left = seats;
    for party in parties {
        let more = seats_above(party, high);
        party.seats += more;
        left -= more;
    }
    left
}

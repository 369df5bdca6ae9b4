//! The trouble of one run: what happens, how often, and when. Everything is drawn from the seed.
//!
//! In: the world. Out: calls of what users, the network, disks, clocks, members and processes do, one file for each of these.

mod hubs;
mod lines;
mod people;
mod processes;
mod sites;

use std::time::Duration;

use crate::dice::Dice;
use crate::world::World;

/// What a user waits for the hub.
const PATIENCE: Duration = Duration::from_secs(60);
const YEAR: i64 = 365 * 24 * 3600;

/// One sort of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Create,
    Update,
    Delete,
    DeleteMany,
    Recreate,
    CreateMany,
    SteadyChanges,
    LargeBody,
    Document,
    BadWork,
    PoisonWork,
    Weather,
    Harm,
    LineFault,
    AgentEnds,
    AgentStops,
    AgentStopsAgain,
    AgentEndsAtMember,
    AgentEndsAtLedger,
    PowerCut,
    Skew,
    LedgerCopied,
    LedgerPutBack,
    LedgerLost,
    LedgerFlips,
    DiskFull,
    CloneHere,
    CloneElsewhere,
    AgentClock,
    MemberSlow,
    MemberAway,
    MemberSilent,
    MemberEdited,
    HubEnds,
    HubStops,
    HubEndsAtWrite,
    HubDisk,
    Backup,
    Restore,
    RestoreInDeletion,
    Compact,
    HubClock,
}

/// How often each comes, beside the others.
const WEIGHTS: [(Trouble, u64); 42] = [
    (Trouble::Create, 24),
    (Trouble::Update, 24),
    (Trouble::Delete, 14),
    (Trouble::DeleteMany, 2),
    (Trouble::Recreate, 6),
    (Trouble::CreateMany, 1),
    (Trouble::SteadyChanges, 1),
    (Trouble::LargeBody, 2),
    (Trouble::Document, 2),
    (Trouble::BadWork, 2),
    (Trouble::PoisonWork, 1),
    (Trouble::Weather, 8),
    (Trouble::Harm, 8),
    (Trouble::LineFault, 12),
    (Trouble::AgentEnds, 4),
    (Trouble::AgentStops, 4),
    (Trouble::AgentStopsAgain, 2),
    (Trouble::AgentEndsAtMember, 5),
    (Trouble::AgentEndsAtLedger, 5),
    (Trouble::PowerCut, 4),
    (Trouble::Skew, 3),
    (Trouble::LedgerCopied, 2),
    (Trouble::LedgerPutBack, 3),
    (Trouble::LedgerLost, 1),
    (Trouble::LedgerFlips, 2),
    (Trouble::DiskFull, 4),
    (Trouble::CloneHere, 1),
    (Trouble::CloneElsewhere, 1),
    (Trouble::AgentClock, 2),
    (Trouble::MemberSlow, 4),
    (Trouble::MemberAway, 3),
    (Trouble::MemberSilent, 3),
    (Trouble::MemberEdited, 4),
    (Trouble::HubEnds, 4),
    (Trouble::HubStops, 2),
    (Trouble::HubEndsAtWrite, 4),
    (Trouble::HubDisk, 3),
    (Trouble::Backup, 3),
    (Trouble::Restore, 3),
    (Trouble::RestoreInDeletion, 2),
    (Trouble::Compact, 2),
    (Trouble::HubClock, 2),
];

/// The sorts of trouble that a run knows: each run leaves some out, so that every sort is met without the others' noise, and has much of
/// a few.
pub fn kinds(dice: &mut Dice) -> Vec<(Trouble, u64)> {
    let share = dice.between(8, 60);
    let mut kinds = Vec::new();
    for (trouble, weight) in WEIGHTS {
        if trouble <= Trouble::Recreate {
            kinds.push((trouble, weight));
        } else if dice.chance(share) {
            let times = if dice.chance(30) { 8 } else { 1 };
            kinds.push((trouble, weight * times));
        }
    }
    kinds
}

fn draw(dice: &mut Dice, kinds: &[(Trouble, u64)]) -> Trouble {
    let mut left = dice.between(1, kinds.iter().map(|(_, weight)| weight).sum());
    for (trouble, weight) in kinds {
        if left <= *weight {
            return *trouble;
        }
        left -= weight;
    }
    Trouble::Create
}

impl World {
    /// So much trouble, one after the other.
    pub async fn trouble(&mut self, count: u64) {
        let kinds = kinds(&mut self.dice);
        self.backups.push(self.hub.backup());
        for _ in 0..count {
            let pause = match self.dice.between(0, 9) {
                0..=4 => self.dice.between(0, 2_000),
                5..=8 => self.dice.between(2_000, 30_000),
                _ => self.dice.between(30_000, 400_000),
            };
            self.pass(Duration::from_millis(pause)).await;
            let trouble = draw(&mut self.dice, &kinds);
            let at = (self.dice.next() % self.places.len() as u64) as usize;
            // Who asks a hub that ends over it gives up.
            let patience = match trouble {
                Trouble::CloneHere => 10 * PATIENCE,
                Trouble::SteadyChanges
                | Trouble::LargeBody
                | Trouble::AgentStopsAgain
                | Trouble::LedgerPutBack
                | Trouble::DiskFull
                | Trouble::Restore
                | Trouble::RestoreInDeletion => 5 * PATIENCE,
                _ => PATIENCE,
            };
            let _ = tokio::time::timeout(patience, self.happens(trouble, at)).await;
        }
    }

    async fn happens(&mut self, trouble: Trouble, at: usize) {
        use Trouble as T;
        match trouble {
            T::Create
            | T::Update
            | T::Delete
            | T::DeleteMany
            | T::Recreate
            | T::CreateMany
            | T::BadWork
            | T::PoisonWork => self.users_do(trouble, at).await,
            T::SteadyChanges => self.changes_without_end(at).await,
            T::LargeBody => self.line_breaks_within_a_body(at).await,
            T::Weather | T::Harm | T::LineFault => self.line_does(trouble, at),
            T::AgentEnds
            | T::AgentStops
            | T::AgentStopsAgain
            | T::AgentEndsAtMember
            | T::AgentEndsAtLedger
            | T::PowerCut
            | T::Skew
            | T::CloneHere
            | T::CloneElsewhere => self.process_does(trouble, at).await,
            T::LedgerCopied | T::LedgerPutBack | T::LedgerLost | T::LedgerFlips | T::DiskFull => {
                self.ledger_does(trouble, at).await;
            }
            T::MemberSlow | T::MemberAway | T::MemberSilent | T::MemberEdited => {
                self.member_does(trouble, at).await;
            }
            T::AgentClock => {
                let ahead = self.offset();
                self.log.line(format_args!("the clock of s{at} is {ahead} s ahead"));
                self.places[at].agent.clock.set_ahead(ahead);
            }
            T::HubClock => {
                let ahead = self.offset();
                self.log.line(format_args!("the hub's clock is {ahead} s ahead"));
                self.hub.clock.set_ahead(ahead);
            }
            T::HubEnds
            | T::HubStops
            | T::HubEndsAtWrite
            | T::HubDisk
            | T::Backup
            | T::Restore
            | T::RestoreInDeletion
            | T::Compact
            | T::Document => self.hub_does(trouble, at).await,
        }
    }

    fn offset(&mut self) -> i64 {
        let most = *self.dice.one(&[0, 60, 3600, 24 * 3600, YEAR, 10 * YEAR]);
        if self.dice.chance(50) { most } else { -most }
    }
}

//! What of sessions must outlive the process: numbers, epochs, starts of the hub, deletes that are held.
//!
//! In: what an agent says that it was told. Out: of which history that is, and what it is told from now on.

use async_trait::async_trait;
use bytes::Bytes;
use karmada_proto::v1::Seen;

use super::PortError;

/// The deletes of an epoch up to a revision, as one start of the hub listed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The epoch.
    pub epoch: u64,
    /// The newest revision of what is in it.
    pub revision: u64,
    /// The hub's start that listed it: in another life of the hub the same revision is of something else. Zero: of an earlier version,
    /// which did not say.
    pub timeline: u64,
}

impl Batch {
    /// Whether `other` is in it, where both are of one history.
    pub fn covers(self, other: Batch) -> bool {
        (self.epoch, self.revision) >= (other.epoch, other.revision)
    }

    /// Whether it was listed in the history that the hub has, and not in a life that was taken back. One that does not say of which start
    /// it is counts for nothing but what an earlier version `held`.
    pub fn is_of_this_history(self, sessions: &dyn SessionStore, held: Option<Batch>) -> bool {
        match self.timeline {
            0 => held.is_some_and(|held| held.timeline == 0),
            timeline => sessions.in_our_past(timeline, self.revision),
        }
    }
}

/// That deletes are held from a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreHold {
    /// The batch held back. `karmadactl confirm` of this revision or a later one releases all of it.
    pub batch: Batch,
    /// For which starts of the hub, none of its past, and up to which revision of each: what the site was told there.
    pub lives: Vec<Seen>,
}

impl RestoreHold {
    /// Whether it is for `life` that deletes are held.
    pub fn accounts_for(&self, life: &Seen) -> bool {
        let covers = |held: &Seen| held.timeline == life.timeline && held.revision >= life.revision;
        self.lives.iter().any(covers)
    }
}

/// The batch, then ` START:REVISION` for each life, as the store has it.
impl std::fmt::Display for RestoreHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.batch)?;
        self.lives.iter().try_for_each(|life| write!(f, " {:x}:{}", life.timeline, life.revision))
    }
}

impl std::str::FromStr for RestoreHold {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Earlier versions named no lives.
        let mut parts = text.split(' ');
        let batch = parts.next().unwrap_or_default().parse()?;
        let life = |part: &str| {
            let (timeline, revision) = part.split_once(':').unwrap_or((part, ""));
            Ok(Seen { timeline: u64::from_str_radix(timeline, 16)?, revision: revision.parse()? })
        };
        Ok(RestoreHold { batch, lives: parts.map(life).collect::<Result<_, _>>()? })
    }
}

/// `EPOCH/REVISION/START`, as a person's word and the store have it.
impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{:x}", self.epoch, self.revision, self.timeline)
    }
}

impl std::str::FromStr for Batch {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Without a start it is of an earlier version; without a revision, of one before, and covers nothing.
        let mut parts = text.splitn(3, '/');
        let mut next = |or| parts.next().unwrap_or(or);
        let (epoch, revision, timeline) = (next(""), next("0"), next("0"));
        let timeline = u64::from_str_radix(timeline, 16)?;
        Ok(Batch { epoch: epoch.parse()?, revision: revision.parse()?, timeline })
    }
}

/// Where the hub stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Rises at each restore.
    pub epoch: u64,
    /// The store's newest revision.
    pub revision: u64,
    /// This start of the hub: revisions of one start mean nothing beside those of another that is not its past.
    pub timeline: u64,
}

/// A Cluster from its join to its end: joined anew under the same name, it is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterIncarnation<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Who was told the cursor that an agent names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorOrigin {
    /// The agent of this very Cluster, in the history that the hub has.
    ThisCluster,
    /// In that history as well, but the agent of another Cluster, or of an earlier one of this name; or an earlier version of the hub did
    /// not say whose.
    AnotherCluster,
    /// A start that is none of this hub's past, or past where the next one began.
    InAnotherLife,
}

/// What must outlive the process: the epoch and the sessions' fence.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Where the hub stands now.
    ///
    /// # Errors
    /// The store does not tell.
    async fn position(&self) -> Result<Position, PortError>;
    /// Mints an epoch above `seen` (an agent knows more than the hub: the hub's file was copied back), persists
    /// it, and returns it. Where the epoch is already above, that one.
    ///
    /// # Errors
    /// The store does not take it; or `seen` is so large that nothing could come after it, which is not to be tried again.
    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError>;
    /// Remembers that `cluster` came into this epoch out of other lives of the hub when the store was at this revision: the hub was
    /// restored, and what it lists as deleted may have been taken back since.
    ///
    /// # Errors
    /// The store does not answer, or takes another write first.
    async fn set_restore_hold(&self, cluster: &str, held: &RestoreHold) -> Result<(), PortError>;
    /// The site has what was held so, or nothing of it concerned the site. Nothing changes where something else is held by now.
    ///
    /// # Errors
    /// The store does not answer.
    async fn end_restore_hold(&self, cluster: &str, held: Batch) -> Result<(), PortError>;
    /// What [`SessionStore::set_restore_hold`] was called with last, until it ends.
    ///
    /// # Errors
    /// The store does not answer.
    async fn restore_hold(&self, cluster: &str) -> Result<Option<RestoreHold>, PortError>;
    /// The proof that this hub handed out `epoch`; empty where it cannot be made.
    fn seal(&self, epoch: u64) -> Bytes;
    /// Whether `seal` is such a proof.
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool;
    /// Whether `cursor` is a place in the history that this hub has, where the start `timeline` was there: the start is one of its own
    /// past, and the cursor not beyond where the next one began.
    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool;
    /// The number by which the agent of `whose` is told the start `timeline`: what one Cluster's agent was told is known from what
    /// another's was.
    fn told_as(&self, timeline: u64, whose: ClusterIncarnation<'_>) -> u64;
    /// Who was told `cursor` in the start that is named as `timeline`, seen from `whose` agent.
    fn told(&self, whose: ClusterIncarnation<'_>, timeline: u64, cursor: u64) -> CursorOrigin;
    /// The next session number of `cluster`, persisted: larger than any given before.
    ///
    /// # Errors
    /// The store does not answer.
    async fn next_session(&self, cluster: &str) -> Result<u64, PortError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_is_written_and_as_earlier_versions_wrote_it() {
        let batch = Batch { epoch: 5, revision: 8, timeline: 0xbeef };
        assert_eq!((batch.to_string().as_str(), "5/8/beef".parse()), ("5/8/beef", Ok(batch)));
        assert_eq!("5/8".parse(), Ok(Batch { timeline: 0, ..batch }));
        assert_eq!("5".parse(), Ok(Batch { epoch: 5, revision: 0, timeline: 0 }));
        for wrong in ["", "5/x", "5/8/xyz", "5/8/1/2"] {
            assert!(wrong.parse::<Batch>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_held_is_read_as_it_is_written_and_as_earlier_versions_wrote_it() {
        let batch = Batch { epoch: 5, revision: 8, timeline: 0xbeef };
        let lives = vec![Seen { timeline: 0xa1, revision: 7 }, Seen { timeline: u64::MAX, revision: 9 }];
        let held = RestoreHold { batch, lives };
        assert_eq!(held.to_string(), "5/8/beef a1:7 ffffffffffffffff:9");
        assert_eq!(held.to_string().parse(), Ok(held.clone()));
        assert_eq!("5/8/beef".parse(), Ok(RestoreHold { batch, lives: Vec::new() }));
        for wrong in ["", "5/8/beef ", "5/8/beef a1", "5/8/beef a1:x", "5/8/beef x:1"] {
            assert!(wrong.parse::<RestoreHold>().is_err(), "{wrong}");
        }
        for (timeline, revision, accounts) in [(0xa1, 7, true), (0xa1, 8, false), (0xa2, 1, false)] {
            assert_eq!(held.accounts_for(&Seen { timeline, revision }), accounts);
        }
    }
}

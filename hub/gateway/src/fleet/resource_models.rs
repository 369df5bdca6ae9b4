//! By which grades an agent counts its free nodes, as far as it was told: a digest of them.
//!
//! In: what an agent was told, and the digests of the grades it should count by and of the standard ones. Out: whether it must be told.
//! Pure.
//!
//! An agent begins with the standard grades, so that most are never told anything.

/// What an agent was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToldResourceModels {
    digest: u64,
    /// Whether that was in the session that stands.
    now: bool,
}

impl ToldResourceModels {
    /// The session that stands was told the models of this digest.
    pub(super) fn told(digest: u64) -> ToldResourceModels {
        ToldResourceModels { digest, now: true }
    }

    /// Its session ended. It may come back as another process, which counts by the standard again.
    pub(super) fn left(&mut self) {
        self.now = false;
    }

    /// Whether an agent that was `told` these is to be told that it counts by `wanted`.
    pub(super) fn differ(told: Option<ToldResourceModels>, wanted: u64, standard: u64) -> bool {
        match told {
            Some(told) if told.now => told.digest != wanted,
            Some(told) => wanted != standard || told.digest != standard,
            None => wanted != standard,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_what_it_does_not_count_by() {
        const STANDARD: u64 = 1;
        const OWN: u64 = 2;
        let differ = |told, wanted| ToldResourceModels::differ(told, wanted, STANDARD);
        assert!(!differ(None, STANDARD), "it begins with these");
        assert!(differ(None, OWN) && differ(None, 3));
        let mut told = ToldResourceModels::told(OWN);
        assert!(!differ(Some(told), OWN) && differ(Some(told), STANDARD));
        told.left();
        assert!(differ(Some(told), OWN), "it may have begun anew");
        assert!(differ(Some(told), STANDARD), "or not");
        let mut told = ToldResourceModels::told(STANDARD);
        told.left();
        assert!(!differ(Some(told), STANDARD));
    }
}

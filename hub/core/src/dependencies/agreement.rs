//! What holds for an attached binding that several referrers share and that no policy places.
//!
//! In: what each referrer wishes. Out: what holds, and whether they disagree: the wish that keeps more at work in members wins.

use karmada_api::binding::BindingSpec;
use karmada_api::policy::ConflictResolution;

/// What a referrer says of what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DependencyPreferences {
    /// Whether objects that are in the way are taken over.
    pub overwrite: bool,
    /// Whether objects in members stay when the template is deleted.
    pub preserve: bool,
}

impl DependencyPreferences {
    /// What this one says; what it does not say is no.
    pub fn of(referrer: &BindingSpec) -> Self {
        DependencyPreferences {
            overwrite: referrer.conflict_resolution == Some(ConflictResolution::Overwrite),
            preserve: referrer.preserve_resources_on_deletion == Some(true),
        }
    }
}

/// What holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The wish that holds: each part where one referrer has it.
    pub holds: DependencyPreferences,
    /// Parts that one referrer has and another has not.
    pub disputed: DependencyPreferences,
}

/// What holds for these.
pub fn agree(wishes: impl IntoIterator<Item = DependencyPreferences>) -> Agreement {
    let (mut holds, mut refused) = (DependencyPreferences::default(), DependencyPreferences::default());
    for wish in wishes {
        holds.overwrite |= wish.overwrite;
        holds.preserve |= wish.preserve;
        refused.overwrite |= !wish.overwrite;
        refused.preserve |= !wish.preserve;
    }
    let disputed = DependencyPreferences {
        overwrite: holds.overwrite && refused.overwrite,
        preserve: holds.preserve && refused.preserve,
    };
    Agreement { holds, disputed }
}

impl Agreement {
    /// How objects that are in the way are met.
    pub fn conflict_resolution(&self) -> ConflictResolution {
        if self.holds.overwrite { ConflictResolution::Overwrite } else { ConflictResolution::Abort }
    }

    /// The words of the event on what referrers disagree about; none where they agree.
    pub fn dispute(&self) -> Option<String> {
        let parts = [
            (self.disputed.overwrite, "ConflictResolution conflicted (Overwrite vs Abort)"),
            (self.disputed.preserve, "PreserveResourcesOnDeletion conflicted (true vs false)"),
        ];
        let said: Vec<&str> = parts.into_iter().filter_map(|(is, words)| is.then_some(words)).collect();
        (!said.is_empty()).then(|| format!("Dependency policy conflict detected: {}.", said.join("; ")))
    }
}

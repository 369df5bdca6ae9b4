//! The registry of a hub: what it serves, and the gates that every write passes, in their order.
//!
//! In: what was opened, settings. Out: the registry.

use std::sync::Arc;

use karmada_access::{Authorizer, Escalation};
use karmada_api::defaulting::cluster::Grades;
use karmada_core::feature_gates::Gate;
use karmada_kinds::catalogue;
use karmada_registry::admission::{
    Admission, CertificateRequests, LimitRanger, NamespaceLifecycle, PodDefaults, ServiceAccounts,
};
use karmada_registry::{Clock, Parts, Registry};

use super::opened::OpenedState;
use crate::fleet::{
    CustomizationValidation, DeletionProtection, EXEMPT, FederatedQuotas, KarmadaPolicies, ResidencyGuard,
};
use crate::settings::{Serves, Settings};
use crate::{certificate_requests, randomness};

/// The registry over what was opened.
pub(super) fn registry(
    opened: &OpenedState,
    authorizer: &Arc<Authorizer>,
    settings: &Settings,
    clock: &Clock,
) -> Arc<Registry> {
    let registry = Registry::new(Parts {
        store: opened.store.clone(),
        cache: opened.cache.clone(),
        catalogue: match settings.serves {
            Serves::Fleet => catalogue::shipped(),
            Serves::Kubernetes => catalogue::of_kubernetes(),
        },
        admission: gates(opened, authorizer, settings),
        authorizer: authorizer.clone(),
        clock: clock.clone(),
        ids: Arc::new(randomness::id),
    });
    let mut registry = registry.exempting(EXEMPT);
    if settings.lifecycle.gates.enabled(Gate::FederatedQuotaEnforcement) {
        registry = registry.judging(Box::new(FederatedQuotas::new(&opened.cache)));
    }
    Arc::new(registry)
}

fn gates(opened: &OpenedState, authorizer: &Arc<Authorizer>, settings: &Settings) -> Vec<Box<dyn Admission>> {
    let lifecycle = &settings.lifecycle;
    let policies = KarmadaPolicies {
        taint_policies: lifecycle.taint_policies,
        grades: match lifecycle.gates.enabled(Gate::CustomizedClusterResourceModeling) {
            true => Grades::Completed,
            false => Grades::AsWritten,
        },
    };
    let mut gates: Vec<Box<dyn Admission>> = vec![
        Box::new(NamespaceLifecycle),
        Box::new(PodDefaults),
        Box::new(DeletionProtection),
        Box::new(LimitRanger::new(&opened.cache)),
        Box::new(Escalation::new(authorizer.clone())),
        Box::new(CertificateRequests::new(authorizer.clone(), certificate_requests::asked_name)),
        Box::new(policies),
        Box::new(CustomizationValidation),
        Box::new(ResidencyGuard::default()),
    ];
    if settings.access.accounts_of_pods {
        gates.push(Box::new(ServiceAccounts));
    }
    gates
}

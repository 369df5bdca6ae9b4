//! Where Services of the member are reached, as the hub asks it for other clusters ([`service_endpoints`]).
//!
//! In: Works that ask, what the watch told. Out: the answer stands as the status of the Work that asked.

use super::Engine;
use crate::reconcile::service_endpoints::{self, ReportedService, Service};

impl Engine {
    /// The Work asks where this Service is reached, or asks nothing (any more).
    pub(super) fn asks(&mut self, key: &str, service: Option<Service>) {
        if service.is_some() && !self.follows_services {
            self.follow_services();
        }
        let known = self.asked.set(key, service).cloned();
        self.statuses.answer(key, self.asked.service(key).zip(known.as_ref()));
    }

    /// From now on there is a watch as long as anything is asked.
    fn follow_services(&mut self) {
        self.follows_services = true;
        let (member, namespaces) = (self.parts.member.clone(), self.parts.namespaces.clone());
        let (failures, services) = (self.failure_log.clone(), self.asked.services());
        let told = self.endpoints.clone();
        self.watchers.spawn(service_endpoints::run(member, namespaces, failures, services, told));
    }

    pub(super) fn endpoints_came(&mut self, told: ReportedService) {
        for key in self.asked.came(told) {
            self.statuses.answer(&key, self.asked.service(&key).zip(self.asked.known(&key)));
            self.tell(&key);
        }
    }
}

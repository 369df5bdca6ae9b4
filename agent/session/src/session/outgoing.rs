//! What a session tells the hub next: answers first, then what is compared, then what the outbox has, as far as the hub's credit goes.
//!
//! In: the session's queue, the outbox, the credit that the hub granted. Out: the next frame.

use std::time::Duration;

use bytes::Bytes;
use karmada_proto::digest::Root;
use karmada_proto::v1::{self, AgentFrame, Credit, Table, agent_frame};
use karmada_proto::{credit, frame};

use super::Session;
use crate::outbox::Outbox;

impl Session {
    /// The next frame to send.
    pub fn next_frame(&mut self, outbox: &mut Outbox, now: Duration) -> Option<AgentFrame> {
        let body = self.next_body(outbox, now)?;
        self.line.sends(now);
        Some(frame::agent(body))
    }

    fn next_body(&mut self, outbox: &mut Outbox, now: Duration) -> Option<agent_frame::Body> {
        if !self.intake.is_committing()
            && let Some(credit) = self.return_idle_credit()
        {
            return Some(agent_frame::Body::Credit(credit));
        }
        if let Some(body) = self.out.pop_front() {
            return Some(self.with_roots(body, outbox));
        }
        if !self.welcomed || self.ended.is_some() {
            return None;
        }
        self.tell_again(outbox);
        if std::mem::take(&mut self.sums_asked) {
            let sums = outbox.told_buckets().bytes();
            return Some(agent_frame::Body::Buckets(v1::Buckets { table: Table::Statuses as u32, sums }));
        }
        if let Some(keys) = self.intake.take_orphans() {
            outbox.orphans(keys);
        }
        if self.send_credit.room() == 0 {
            return None;
        }
        if let Some(body) = outbox.next_prompt() {
            match &body {
                agent_frame::Body::Removed(removed) => self.intake.removed(&removed.key),
                agent_frame::Body::Orphans(orphans) => self.intake.found(&orphans.keys),
                _ => {}
            }
            self.send_credit.spend(credit::cost(&body));
            return Some(body);
        }
        let (body, cost) = outbox.next_report(self.packing, now)?;
        self.send_credit.spend(cost);
        Some(body)
    }

    /// Whether the hub takes a report now. Where it does not, none is due before it grants more.
    pub fn takes_reports(&self) -> bool {
        self.welcomed && self.ended.is_none() && self.send_credit.room() > 0
    }

    /// A ping tells what is held, where nothing is on its way that would change it.
    fn with_roots(&self, body: agent_frame::Body, outbox: &Outbox) -> agent_frame::Body {
        match body {
            agent_frame::Body::Ping(ping) if self.compares => {
                let told = |root: Option<Root>| root.map_or_else(Bytes::new, |root| root.bytes());
                let committed = self.intake.committed_root();
                agent_frame::Body::Ping(v1::Ping {
                    ledger_root: told(committed.map(|(root, _)| root)),
                    status_root: told(outbox.root_if_idle()),
                    cursor: committed.map_or(0, |(_, cursor)| cursor),
                    ..ping
                })
            }
            body => body,
        }
    }

    /// What the hub wants to hear again is due again.
    fn tell_again(&mut self, outbox: &mut Outbox) {
        let again = std::mem::take(&mut self.resync);
        if again.statuses {
            outbox.all_again();
        } else if again.cluster {
            outbox.cluster_again();
        }
        if !self.differing.is_empty() {
            outbox.again(&std::mem::take(&mut self.differing));
        }
    }

    /// Credit for what needed no commit goes back too.
    fn return_idle_credit(&mut self) -> Option<Credit> {
        for cost in self.intake.take_unwritten_credit() {
            self.credit.return_credit(cost);
        }
        self.credit.grant()
    }
}

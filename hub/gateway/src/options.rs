//! The gateway's settings, with the values a hub runs with.
//!
//! Types alone; whoever starts a gateway hands them in.

use std::time::Duration;

use karmada_proto::v1::Credit;

use crate::rate::Rate;

/// Settings of the fleet's end.
#[derive(Debug, Clone)]
pub struct Options {
    /// The shortest interval between an agent's pings.
    pub ping_min: Duration,
    /// The longest.
    pub ping_max: Duration,
    /// Time for the first frame after the stream opened.
    pub hello_timeout: Duration,
    /// How long an old session may take to answer when another boot id shows its identity.
    pub probe_timeout: Duration,
    /// What an agent may report ahead of what the hub has written.
    pub status_window: Credit,
    /// Sessions the hub takes per second; spreads reconnects.
    pub accept_rate: u32,
    /// How often the sessions of one cluster begin; who comes more often waits.
    pub session_rate: Rate,
    /// How often the agent of one cluster gets a new certificate over its stream.
    pub renewal_rate: Rate,
    /// Report writes of one cluster under way at once.
    pub report_concurrency: usize,
    /// Reports that all sessions together may have unpacked and be parsing at once, in KiB; others wait. What is parsed is some
    /// twenty times as large at worst.
    pub unpacked_kib: u32,
    /// The same of one session, in KiB; one report more may exceed it.
    pub session_unpacked_kib: u32,
    /// Works waiting to be sent to one agent, beyond which its watch is not read on.
    pub queue_limit: usize,
    /// Between two looks at all sessions from outside: for those that are stuck in a send, and so do not see their own time limits, and for
    /// certificates that have ended.
    pub sweep: Duration,
    /// Pause before a report that failed is offered again.
    pub report_retry: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ping_min: Duration::from_secs(20),
            ping_max: Duration::from_secs(60),
            hello_timeout: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(5),
            status_window: Credit { messages: 256, bytes: 1 << 20 },
            accept_rate: 500,
            session_rate: Rate { per_minute: 30.0, burst: 20.0 },
            renewal_rate: Rate { per_minute: 2.0, burst: 5.0 },
            report_concurrency: 16,
            unpacked_kib: 8 * 1024,
            session_unpacked_kib: 1024,
            queue_limit: 16_384,
            sweep: Duration::from_secs(5),
            report_retry: Duration::from_secs(1),
        }
    }
}

//! Whose turn it is to call out: no webhook that hangs keeps the calls of others waiting.
//!
//! In: what a call is for, and where it goes. Out: a [`Turn`] to hold while it is under way, or why there is none. Each webhook has its
//! own places and its own short queue; what calls are for shares none. A webhook that let several calls in a row run out of time is not called for
//! a while, but one of admission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::Target;

/// Calls to one webhook that are under way at once.
const PLACES: usize = 64;
/// Calls to one webhook that wait for a place. Further ones fail at once.
const WAITING: usize = 512;
/// Calls under way at once to all webhooks of a purpose: what sockets and memory bear.
const ALL: usize = 512;

static ADMISSIONS: Semaphore = Semaphore::const_new(ALL);
static CONVERSIONS: Semaphore = Semaphore::const_new(ALL);
static INTERPRETATIONS: Semaphore = Semaphore::const_new(ALL);

/// What a call is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// A request is judged or changed.
    Admission,
    /// Objects of this kind (`PLURAL.GROUP`) are shown or stored in another version.
    Conversion(&'a str),
    /// What an object says is asked of who knows its kind.
    Interpretation,
}

impl Purpose<'_> {
    fn all(self) -> &'static Semaphore {
        match self {
            Purpose::Admission => &ADMISSIONS,
            Purpose::Conversion(_) => &CONVERSIONS,
            Purpose::Interpretation => &INTERPRETATIONS,
        }
    }
}

/// Calls of one purpose to one webhook.
struct WebhookQueue {
    /// Who has a place or waits for one.
    admitted: Semaphore,
    places: Semaphore,
    /// None where every call is made, whatever became of those before: a request that a webhook has to judge waits for its verdict.
    circuit: Option<Mutex<Circuit>>,
}

/// What lines there are, by purpose and URL. One that nobody uses, and that has nothing to remember, goes when another comes.
static LINES: Mutex<BTreeMap<String, Arc<WebhookQueue>>> = Mutex::new(BTreeMap::new());

fn line(purpose: Purpose<'_>, url: &str) -> Arc<WebhookQueue> {
    let name = match purpose {
        Purpose::Admission => format!("admission {url}"),
        Purpose::Conversion(kind) => format!("conversion {kind} {url}"),
        Purpose::Interpretation => format!("interpretation {url}"),
    };
    let mut lines = LINES.lock();
    if let Some(line) = lines.get(&name) {
        return line.clone();
    }
    let now = Instant::now();
    let remembers =
        |line: &WebhookQueue| line.circuit.as_ref().is_some_and(|circuit| circuit.lock().remembers(now));
    lines.retain(|_, line| Arc::strong_count(line) > 1 || remembers(line));
    let (admitted, places) = (Semaphore::new(PLACES + WAITING), Semaphore::new(PLACES));
    let circuit = (!matches!(purpose, Purpose::Admission)).then(Mutex::default);
    let line = Arc::new(WebhookQueue { admitted, places, circuit });
    lines.insert(name, line.clone());
    line
}

/// A call under way: its places are free again when it is dropped.
pub(super) struct Turn<'a> {
    line: &'a WebhookQueue,
    _admitted: SemaphorePermit<'a>,
    _place: SemaphorePermit<'a>,
    _of_all: SemaphorePermit<'static>,
}

/// Makes a call when it is its turn, both within a time.
///
/// # Errors
/// That of the call; no place was free in time, too many wait already, or the webhook is not called just now.
pub(super) async fn in_turn<T>(
    purpose: Purpose<'_>,
    target: &Target,
    within: Duration,
    call: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    const TIME_OUT: &str = "context deadline exceeded";
    let line = line(purpose, &target.url);
    let end = Instant::now() + within;
    let turn = tokio::time::timeout_at(end, line.turn(purpose, within)).await;
    let turn = turn.unwrap_or_else(|_| Err(TIME_OUT.to_owned()))?;
    let began = Instant::now();
    let outcome = tokio::time::timeout_at(end, call).await;
    // A call that had to wait for most of its time says little about the webhook.
    if outcome.is_ok() || began.elapsed() >= within / 2 {
        turn.ended(if outcome.is_ok() { CallEnd::Answered } else { CallEnd::TimedOut });
    }
    outcome.unwrap_or_else(|_| Err(TIME_OUT.to_owned()))
}

impl WebhookQueue {
    async fn turn(&self, purpose: Purpose<'_>, within: Duration) -> Result<Turn<'_>, String> {
        let admitted = self.admitted.try_acquire();
        let admitted = admitted.map_err(|_| format!("{WAITING} calls to this webhook wait already"))?;
        // Who would wait for a webhook that is not called is told now.
        self.look(|circuit, now| circuit.pause(now))?;
        let place = self.places.acquire().await.map_err(|error| error.to_string())?;
        let of_all = purpose.all().acquire().await.map_err(|error| error.to_string())?;
        self.look(|circuit, now| circuit.pass(now, within))?;
        Ok(Turn { line: self, _admitted: admitted, _place: place, _of_all: of_all })
    }

    fn look(&self, at: impl Fn(&mut Circuit, Instant) -> Option<Duration>) -> Result<(), String> {
        let pause = self.circuit.as_ref().and_then(|circuit| at(&mut circuit.lock(), Instant::now()));
        pause.map_or(Ok(()), |pause| {
            let seconds = pause.as_secs_f64().ceil();
            Err(format!(
                "this webhook did not answer in time {IN_A_ROW} times in a row and is not called for another {seconds}s"
            ))
        })
    }
}

impl Turn<'_> {
    fn ended(&self, end: CallEnd) {
        if let Some(circuit) = &self.line.circuit {
            circuit.lock().ended(end, Instant::now());
        }
    }
}

/// Timeouts in a row after which a webhook is not called for a while.
const IN_A_ROW: u32 = 5;
/// For how long it is not called then.
const PAUSE: Duration = Duration::from_secs(10);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEnd {
    /// In time, with an answer or an error.
    Answered,
    /// Nobody answered in time.
    TimedOut,
}

/// What is remembered of a webhook that does not answer in time. Pure: it is told the time.
#[derive(Debug, Default)]
struct Circuit {
    timeouts: u32,
    /// The next call may be made then, where there were too many timeouts.
    next: Option<Instant>,
}

impl Circuit {
    /// How long no call is made.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let next = self.next.filter(|next| self.timeouts >= IN_A_ROW && *next > now)?;
        Some(next - now)
    }

    /// A call is about to be made, unless it is too early. After a pause one call tries, and others wait for its outcome.
    fn pass(&mut self, now: Instant, within: Duration) -> Option<Duration> {
        let pause = self.pause(now);
        if pause.is_none() && self.timeouts >= IN_A_ROW {
            self.next = Some(now + within);
        }
        pause
    }

    fn ended(&mut self, end: CallEnd, now: Instant) {
        (self.timeouts, self.next) = match end {
            CallEnd::Answered => (0, None),
            CallEnd::TimedOut => (self.timeouts.saturating_add(1), Some(now + PAUSE)),
        };
    }

    /// Whether it is of use to somebody who comes later.
    fn remembers(&self, now: Instant) -> bool {
        const LONG: Duration = Duration::from_secs(600);
        self.next.is_some_and(|next| now < next + LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_some_timeouts_in_a_row_one_call_tries_after_each_pause() {
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        let within = Duration::from_secs(30);
        for _ in 0..IN_A_ROW {
            assert_eq!(circuit.pass(now, within), None);
            circuit.ended(CallEnd::TimedOut, now);
        }
        assert_eq!(circuit.pass(now, within), Some(PAUSE));
        now += PAUSE;
        assert_eq!(circuit.pass(now, within), None);
        assert_eq!((circuit.pause(now), circuit.pass(now, within)), (Some(within), Some(within)));
        circuit.ended(CallEnd::TimedOut, now);
        assert_eq!(circuit.pass(now, within), Some(PAUSE));
        circuit.ended(CallEnd::Answered, now);
        assert_eq!(circuit.pass(now, within), None);
        assert!(!circuit.remembers(now));
    }

    /// Calls to a place that accepts and says nothing.
    async fn hang(calls: usize, purpose: Purpose<'static>, target: &Target) -> Vec<Result<(), String>> {
        let within = Duration::from_secs(30);
        let call = || in_turn(purpose, target, within, std::future::pending::<Result<(), String>>());
        futures::future::join_all((0..calls).map(|_| call())).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversion_webhook_that_hangs_is_not_called_for_a_while() {
        let target = Target::of_url("https://hangs.example.com/").unwrap();
        let conversion = Purpose::Conversion("widgets.hangs.example.com");
        let outcomes = hang(PLACES + WAITING + 1, conversion, &target).await;
        let crowded = |outcome: &&Result<(), String>| {
            outcome.as_ref().is_err_and(|why| why.contains("512 calls to this webhook wait already"))
        };
        assert!(outcomes.iter().all(Result::is_err));
        assert_eq!(outcomes.iter().filter(crowded).count(), 1);
        let began = Instant::now();
        let why = hang(1, conversion, &target).await.remove(0).unwrap_err();
        assert!(why.contains("5 times in a row and is not called for another 10s"), "{why}");
        assert_eq!(began.elapsed(), Duration::ZERO);
        // Other kinds, and admission, are not concerned, though it is the same webhook.
        let other = Purpose::Conversion("gadgets.hangs.example.com");
        for purpose in [other, Purpose::Admission] {
            let answered = in_turn(purpose, &target, Duration::from_secs(1), async { Ok(()) }).await;
            assert_eq!(answered, Ok(()));
        }
    }
}

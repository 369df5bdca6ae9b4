//! Lines as edge sites have them, between real processes: far and lossy, slow, reset again and again, forgotten by a gateway on the way; and
//! ends that are killed. Works are made, changed and deleted meanwhile; in the end hub and member say the same, within a time that the line explains.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::faulty_link::Link;
use tests::wait::{TIMEOUT, eventually};

use crate::private_site::{Line, WORKS};
use crate::slow_line::noise;

/// Once a good line is healed, all is as it should be within this. The machine that runs the tests is shared by all of them: half of it is
/// what is promised.
const ON_A_GOOD_LINE: Duration = Duration::from_secs(20);
/// The same where a round trip takes 800 ms, and a connection ends now and then.
const ON_A_BAD_LINE: Duration = Duration::from_secs(60);
/// Bytes a second of 16 kbit/s.
const RATE: u32 = 2_000;

/// What a person does with a dozen Works: the same in every run.
struct Person {
    state: u64,
    wanted: BTreeMap<String, String>,
    step: usize,
}

impl Person {
    fn new(seed: u64) -> Person {
        Person { state: seed | 1, wanted: BTreeMap::new(), step: 0 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) % below
    }

    /// Makes, changes or deletes one. A name that was deleted is not used again: its Work stays until the site has let go.
    fn acts(&mut self, line: &Line) {
        self.step += 1;
        let mode = format!("m{}", self.step);
        let at = self.draw(1 + self.wanted.len() as u64) as usize;
        match self.wanted.keys().nth(at).cloned() {
            Some(name) if self.draw(3) == 0 => {
                line.delete(&name);
                self.wanted.remove(&name);
            }
            Some(name) => {
                line.change(&name, &mode);
                self.wanted.insert(name, mode);
            }
            None if self.wanted.len() < 12 => {
                let name = format!("w{}", self.step);
                line.put(&name, &mode);
                self.wanted.insert(name, mode);
            }
            None => {}
        }
    }

    fn acts_for(&mut self, line: &Line, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.acts(line);
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    #[track_caller]
    fn sees_all_within(&self, line: &Line, bound: Duration) {
        let wanted: Vec<(&str, &str)> = self.wanted.iter().map(|(name, mode)| (&**name, &**mode)).collect();
        assert!(!wanted.is_empty(), "there is something to agree on");
        eventually("hub and member to say the same", bound, || line.agree(&wanted));
    }
}

/// A site behind `link`.
fn behind_a_link() -> Option<(Line, Link)> {
    let mut line = Line::start()?;
    let link = Link::to(line.hub.address());
    line.lead_over(&link);
    line.put("first", "calm");
    line.await_mode("first", "calm");
    assert!(link.connections() > 0, "the agent comes by the link");
    line.delete("first");
    line.await_no("first");
    Some((line, link))
}

#[test]
fn far_away_and_with_resets_all_arrives_within_a_minute() {
    let Some((line, link)) = behind_a_link() else { return };
    let mut person = Person::new(11);
    link.delay(Duration::from_millis(400));
    link.reset_some(50);
    person.acts_for(&line, Duration::from_secs(20));
    person.sees_all_within(&line, ON_A_BAD_LINE);
    assert!(link.connections() > 2, "connections ended: {}", link.connections());
    link.delay(Duration::ZERO);
    link.reset_some(0);
    person.acts(&line);
    person.sees_all_within(&line, ON_A_GOOD_LINE);
}

/// A gateway that was restarted knows of no connection; neither end is told.
#[test]
fn a_connection_that_the_way_forgot_is_left_and_nothing_is_lost() {
    let Some((line, link)) = behind_a_link() else { return };
    let mut person = Person::new(12);
    person.acts_for(&line, Duration::from_secs(2));
    let before = link.connections();
    link.forget();
    person.acts_for(&line, Duration::from_secs(2));
    // Two pings without an answer, of up to twenty seconds each, and what the connection then takes.
    person.sees_all_within(&line, TIMEOUT + ON_A_GOOD_LINE);
    assert!(link.connections() > before, "over another connection");
}

/// Longer than a session needs to move its largest body at that rate in one go: it goes on where it was cut.
#[test]
fn a_body_arrives_over_a_slow_line_that_is_reset_every_twenty_seconds() {
    let Some((line, link)) = behind_a_link() else { return };
    link.slow_down(Some(RATE));
    let text = noise(60_000);
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "large", "namespace": "default"}, "data": {"mode": text}});
    let object = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": "large"}, "spec": {"workload": {"manifests": [manifest]}}});
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cut = Instant::now();
            while !over.load(Ordering::Relaxed) {
                if cut.elapsed() >= Duration::from_secs(20) {
                    link.cut();
                    link.heal();
                    cut = Instant::now();
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let before = link.connections();
        line.hub.api().create(WORKS, &object).unwrap();
        let arrived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("the large body", 3 * TIMEOUT, || line.agree(&[("large", &text)]));
        }));
        over.store(true, Ordering::Relaxed);
        arrived.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
        assert!(link.connections() > before, "it was reset meanwhile");
    });
}

/// Twice as long as the bytes of the bodies take by themselves.
#[test]
fn at_sixteen_kilobits_a_second_works_arrive_in_twice_the_time_of_their_bytes() {
    let Some((line, link)) = behind_a_link() else { return };
    link.slow_down(Some(RATE));
    let bodies: Vec<(String, String)> = (0..10).map(|at| (format!("w{at}"), noise(4_000 + at))).collect();
    let bytes: usize = bodies.iter().map(|(_, text)| text.len()).sum();
    let begin = Instant::now();
    for (name, text) in &bodies {
        line.put(name, text);
    }
    let wanted: Vec<(&str, &str)> = bodies.iter().map(|(name, text)| (&**name, &**text)).collect();
    let bound = Duration::from_secs_f64(2.0 * bytes as f64 / f64::from(RATE));
    eventually("all Works", bound, || line.agree(&wanted));
    // Random letters shrink to six tenths: the line was the slow part.
    assert!(begin.elapsed() > bound / 4, "{:?}", begin.elapsed());
}

#[test]
fn ends_that_are_killed_again_and_again_lose_nothing() {
    let Some((mut line, _link)) = behind_a_link() else { return };
    let mut person = Person::new(13);
    for round in 0..6 {
        person.acts_for(&line, Duration::from_secs(1));
        if round % 2 == 0 {
            line.agent.kill();
            person.acts(&line);
            line.agent.start_again();
        } else {
            line.hub.kill();
            line.hub.start_again();
        }
    }
    person.acts(&line);
    person.sees_all_within(&line, ON_A_GOOD_LINE);
    line.agent.process().unwrap().alive().unwrap();
}

/// A gateway that forgets what is idle for 45 s: the agent pings earlier at first, tries longer silences, and learns that this one is too long.
/// Some minutes: on request (`--ignored`).
#[test]
#[ignore = "takes some minutes"]
fn a_way_that_forgets_idle_connections_is_learned() {
    let Some((line, link)) = behind_a_link() else { return };
    link.forget_idle(Some(Duration::from_secs(45)));
    let mut person = Person::new(14);
    let mut last = Duration::ZERO;
    // Once a silence of 45 s is tried, of which nothing comes back: that is noticed 30 s later.
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(50));
        person.acts(&line);
        let begin = Instant::now();
        person.sees_all_within(&line, Duration::from_secs(45 + 30) + ON_A_GOOD_LINE);
        last = begin.elapsed();
    }
    assert!(last < ON_A_GOOD_LINE, "the last change took {last:?}: the way was learned by then");
}

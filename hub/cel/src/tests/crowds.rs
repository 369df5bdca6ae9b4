//! Long evaluations take turns: what goes on without one, what waits, and what is known where there was none in time.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::compute_slots::Turns;

/// Well over what needs no turn, and far below every bound.
const LONG: &str = "self.list.all(a, self.list.all(b, a + b >= 0))";

fn program(source: &str) -> Program {
    Program::compile(source, &Declarations::new().with("self", Type::Dyn), Expected::Bool).unwrap()
}

fn evaluator(limits: Limits, budget: &Budget) -> Evaluator {
    let mut evaluator = Evaluator::within(limits, budget);
    let list: Vec<u32> = (0..300).collect();
    evaluator.set("self", Value::from_json(&json!({ "list": list })));
    evaluator
}

/// Time is no matter here, however slow the machine is.
fn patient() -> Limits {
    Limits { time: Duration::from_secs(600), ..Limits::default() }
}

fn one_turn(patience: Duration) -> (Turns, Budget) {
    let turns = Turns::new(1, patience);
    (turns.clone(), Budget::among(patient(), turns))
}

#[test]
fn who_gets_no_turn_in_time_has_found_out_nothing() {
    let (turns, budget) = one_turn(Duration::from_millis(10));
    let held = turns.take(Duration::ZERO).unwrap();
    let judging = evaluator(patient(), &budget);
    assert_eq!(judging.bool(&program("1 + 1 == 2")), Ok(true), "what is brief needs none");
    assert!(!budget.is_crowded());
    // An error on one side of `||` is nothing where the other side is true; this one is not such an error.
    assert_eq!(judging.bool(&program(&format!("!{LONG} || {LONG} || true"))), Err(EvalError::Crowded));
    assert!(budget.is_crowded());
    drop(held);
    assert_eq!(judging.bool(&program("true")), Err(EvalError::Crowded), "nor does the rest of the request");
    let other = Budget::among(patient(), turns);
    assert_eq!(evaluator(patient(), &other).bool(&program(LONG)), Ok(true), "the next request does");
}

#[test]
fn evaluators_of_one_request_share_its_turn() {
    let (turns, budget) = one_turn(Duration::from_millis(10));
    let outer = evaluator(patient(), &budget);
    assert_eq!(outer.bool(&program(LONG)), Ok(true));
    assert!(turns.take(Duration::ZERO).is_none(), "it has the only one");
    let inner = evaluator(patient(), &budget);
    assert_eq!(inner.bool(&program(LONG)), Ok(true));
    drop(outer);
    assert!(turns.take(Duration::ZERO).is_none(), "the inner one has it still");
    drop(inner);
    assert!(turns.take(Duration::ZERO).is_some());
}

#[test]
fn the_wait_for_a_turn_makes_nobody_late() {
    let limits = Limits { time: Duration::from_millis(1500), ..Limits::default() };
    let turns = Turns::new(1, Duration::from_secs(600));
    let budget = Budget::among(limits, turns.clone());
    let held = turns.take(Duration::ZERO).unwrap();
    let waiting = std::thread::spawn(move || evaluator(limits, &budget).bool(&program(LONG)));
    std::thread::sleep(limits.time + limits.time / 5);
    drop(held);
    assert_eq!(waiting.join().unwrap(), Ok(true));
}

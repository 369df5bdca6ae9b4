//! Rows: what was measured, beside its goal.
//!
//! In: a row's name, the figure, its unit, the figure it stands beside, the goal. Out: a line of JSON for each on stdout, and in the end a
//! table; a goal that is missed is told and fails nothing.

use serde_json::json;

/// What a row is to come to, in its unit.
#[derive(Clone, Copy)]
pub enum Goal {
    /// This, or less.
    AtMost(f64),
    /// This, or more.
    AtLeast(f64),
}

/// All rows so far.
#[derive(Default)]
pub struct Rows(Vec<[String; 5]>);

impl Rows {
    /// Adds a row, and prints it as a JSON line. `peer` is the same thing done by the real thing, in the same run or as recorded.
    pub fn add(&mut self, row: &str, ours: f64, unit: &str, peer: &str, goal: Goal) {
        let (met, sign, goal) = match goal {
            Goal::AtMost(goal) => (ours <= goal, "≤", goal),
            Goal::AtLeast(goal) => (ours >= goal, "≥", goal),
        };
        println!(
            "{}",
            json!({"row": row, "ours": round(ours), "peer": peer, "unit": unit, "goal": goal, "met": met})
        );
        let met = if met { "yes" } else { "no" };
        self.0.push([
            row.to_owned(),
            format!("{} {unit}", round(ours)),
            peer.to_owned(),
            format!("{sign} {goal} {unit}"),
            met.to_owned(),
        ]);
    }

    /// Prints all rows as a Markdown table.
    pub fn table(&self) {
        println!("\n| what | ours | beside | goal | met |\n| --- | --- | --- | --- | --- |");
        for [row, ours, peer, goal, met] in &self.0 {
            println!("| {row} | {ours} | {peer} | {goal} | {met} |");
        }
    }
}

fn round(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

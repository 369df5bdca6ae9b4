//! Recorded cases of the reference implementation, and tables and properties beside them: what is scaled by use and by the clock.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../../proto/api/tests/recorded/mod.rs"]
mod recorded;
#[path = "../../../core/tests/lifecycle/values.rs"]
mod values;
#[path = "../../../core/tests/lifecycle/without_nulls.rs"]
mod without_nulls;

mod cron;
mod federated_hpa;

use self::values::time;
use self::without_nulls::without_nulls;

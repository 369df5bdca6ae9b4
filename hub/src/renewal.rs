//! Ends of certificates: the administrator's is replaced in time, the CA's is told of.
//!
//! In: the data directory and a clock. Out: a fresh kubeconfig beside a hub that runs for years, and warnings in the log while there is
//! still time. Runs until told to stop; the first look is the start's own.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apiserver::registry::Clock;
use tokio_util::sync::CancellationToken;

use crate::data_dir::DataDir;

/// How often the ends are looked at.
const PAUSE: Duration = Duration::from_secs(12 * 3600);

/// From when on the CA's end is warned of.
const WARNED: i64 = 365 * 24 * 3600;

/// Days until the CA ends, where that is soon enough to be told; below 0: it has ended.
pub fn authority_warning(end: Timestamp, now: Timestamp) -> Option<i64> {
    let left = end.as_second() - now.as_second();
    (left < WARNED).then(|| left.div_euclid(24 * 3600))
}

/// Looks again and again.
pub async fn run(data: Arc<DataDir>, url: String, clock: Clock, stop: CancellationToken) {
    loop {
        look(&data, &url, clock());
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn look(data: &DataDir, url: &str, now: Timestamp) {
    if let Err(error) = data.write_kubeconfig(url, now) {
        tracing::warn!(error = format!("{error:#}"), "the administrator's kubeconfig cannot be renewed");
    }
    if let Some(days) = data.authority_end().and_then(|end| authority_warning(end, now)) {
        tracing::warn!(days, "the hub's CA ends: no agent and no client will believe the hub from then on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_ca_is_told_of_in_its_last_year() {
        let day = |day: i64| Timestamp::from_second(1_760_000_000 + day * 24 * 3600).unwrap();
        for (now, told) in [(0, None), (3284, None), (3286, Some(364)), (3650, Some(0)), (3651, Some(-1))] {
            assert_eq!(authority_warning(day(3650), day(now)), told, "{now}");
        }
    }

    #[test]
    fn a_hub_that_runs_for_a_year_renews_the_kubeconfig_and_else_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let day = |day: i64| Timestamp::from_second(1_760_000_000 + day * 24 * 3600).unwrap();
        let data = DataDir::open(folder.path(), day(0)).unwrap();
        let file = || {
            let file = data.kubeconfig_file();
            (std::fs::metadata(&file).unwrap().modified().unwrap(), std::fs::read(&file).unwrap())
        };
        look(&data, "https://hub:5443", day(0));
        let first = file();
        look(&data, "https://hub:5443", day(300));
        assert_eq!(file(), first);
        look(&data, "https://hub:5443", day(310));
        assert_ne!(file().1, first.1);
    }
}

//! Durations for people, as kubectl and kube-apiserver print them (`k8s.io/apimachinery/pkg/util/duration`).
//!
//! In: whole seconds. Out: text. A moment in the future is `<invalid>`, but for one second of clocks that differ.

/// Seconds as `5s`, `3m20s`, `7h5m`, `3d4h`, `2y40d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let pair = |large: i64, l: &str, small: i64, s: &str| {
        if small == 0 { format!("{large}{l}") } else { format!("{large}{l}{small}{s}") }
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => pair(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

//! Durations for people: as kubectl and kube-apiserver print them (`k8s.io/apimachinery/pkg/util/duration`), and as flags say them.
//!
//! In: whole seconds. Out: text. A moment in the future is `<invalid>`, but for one second of clocks that differ. The other way round: a flag's text,
//! and the span that it says.

use jiff::SignedDuration;

/// No span of a flag is longer, as with Go's: a moment after it is still one.
const LONGEST: SignedDuration = SignedDuration::from_nanos(i64::MAX);

/// The span that a flag says as Go writes it: `90s`, `5m`, `1h30m`, `24h`. `None` where it says none, one below nothing, or one that is longer than
/// Go's longest.
pub fn flag_duration(text: &str) -> Option<SignedDuration> {
    let span: SignedDuration = text.parse().ok()?;
    (!span.is_negative() && span <= LONGEST).then_some(span)
}

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

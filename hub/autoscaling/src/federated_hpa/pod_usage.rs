//! How much Pods use of what they should, and how many replicas that asks for.
//!
//! In: Pods with what was measured of them, a target, the template's replicas and those that the clusters have of them. Out: replicas of the
//! template. Nothing changes where the use is close enough to the target.
//!
//! Pods that cannot be judged speak against a change: one without a measure is taken to use its whole target where there is too little use, and
//! nothing where there is too much; one that only just starts, nothing where there is too much. Where they turn the direction, nothing changes.

use jiff::{SignedDuration, Timestamp};

use super::facts::{Phase, Pod, Sample};

/// While it is this young, what a Pod uses of its CPU counts once it serves for a whole window of its measure.
const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);
/// A Pod that ceased to serve within this time never did.
const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// What each Pod should use, on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A share of what it asked for, in hundredths.
    Utilization(i32),
    /// Per Pod, in thousandths of the metric's unit.
    Average(i64),
}

/// How far the use may be from its target before anything changes, as a share of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// Above it.
    pub up: f64,
    /// Below it.
    pub down: f64,
}

impl Tolerance {
    /// Where nobody says otherwise.
    pub const USUAL: f64 = 0.1;

    fn bears(self, ratio: f64) -> bool {
        (ratio - 1.0).abs() <= if ratio > 1.0 { self.up } else { self.down }
    }
}

/// How many replicas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// In the template.
    pub template: i32,
    /// In the clusters that answered, as they are to have them. Above zero where the template's are.
    pub wanted: i64,
    /// In the clusters that answered, as they have them.
    pub running: i64,
}

impl Scale {
    /// Replicas of the template by which the clusters have so many: where each has all of them, they are shared.
    fn of_members(self, members: f64) -> i32 {
        if self.template <= 0 || self.wanted <= 0 {
            return 0;
        }
        rounded_up(members / (self.wanted as f64 / f64::from(self.template)))
    }
}

/// What is no number is nothing; what 32 bits do not hold is the most that they do.
fn rounded_up(replicas: f64) -> i32 {
    replicas.ceil().max(0.0) as i32
}

/// Pods together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: i64,
    usage: i128,
    request: i128,
}

impl Sum {
    fn add(&mut self, usage: i64, request: i64) {
        self.count += 1;
        self.usage += i128::from(usage);
        self.request += i128::from(request);
    }

    fn with(self, other: Sum, usage: i128) -> Sum {
        Sum {
            count: self.count + other.count,
            usage: self.usage + usage,
            request: self.request + other.request,
        }
    }

    /// What each uses of what it asked for, in hundredths.
    fn utilization(&self) -> Option<i128> {
        (self.request > 0).then(|| self.usage.saturating_mul(100) / self.request)
    }

    /// What each uses.
    fn average(&self) -> Option<i128> {
        (self.count > 0).then(|| self.usage / i128::from(self.count))
    }
}

/// How a Pod counts.
enum PodState {
    /// Not at all.
    Apart,
    /// It does not run for long enough to be judged.
    Unready,
    /// Nothing was measured of it.
    Missing,
    /// By what it uses.
    Counted(i64),
}

/// The Pods by how they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counted: Sum,
    unready: Sum,
    missing: Sum,
}

/// Of which metric the Pods are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counting {
    /// Its place among the metrics.
    pub metric: usize,
    /// Whether it is the CPU's, of which a Pod uses more while it starts.
    pub cpu: bool,
    /// Whether what the Pods asked for has to be known.
    pub requests: bool,
}

/// Counts Pods. An error says why what they use is no share of anything.
pub(super) fn tally(pods: &[Pod], counting: Counting, now: Timestamp) -> Result<Tally, String> {
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let mut tally = Tally::default();
    for pod in pods {
        let measure = pod.measures.get(counting.metric);
        let sample = measure.and_then(|measure| measure.sample.as_ref());
        let standing = standing(pod, sample, counting.cpu, now);
        let request = match (&standing, measure) {
            (PodState::Apart, _) => continue,
            _ if !counting.requests => 0,
            (_, Some(measure)) => measure.request.clone()?,
            (_, None) => return Err("what a Pod asks for is not known".to_owned()),
        };
        match standing {
            PodState::Apart => {}
            PodState::Unready => tally.unready.add(0, request),
            PodState::Missing => tally.missing.add(0, request),
            PodState::Counted(usage) => tally.counted.add(usage, request),
        }
    }
    if tally.counted.count == 0 {
        return Err("did not receive metrics for any ready pods".to_owned());
    }
    Ok(tally)
}

fn standing(pod: &Pod, sample: Option<&Sample>, cpu: bool, now: Timestamp) -> PodState {
    match (pod.phase, sample) {
        _ if pod.deleting => PodState::Apart,
        (Phase::Ended, _) => PodState::Apart,
        (Phase::Pending, _) => PodState::Unready,
        (Phase::Running, None) => PodState::Missing,
        (Phase::Running, Some(sample)) if cpu && starts(pod, sample, now) => PodState::Unready,
        (Phase::Running, Some(sample)) => PodState::Counted(sample.milli),
    }
}

/// Whether what a Pod uses may be of its start alone.
fn starts(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let (Some(ready), Some(started)) = (pod.ready, pod.started) else { return true };
    let idle = ready.serves == Some(false);
    if now.duration_since(started) < CPU_INITIALIZATION {
        return idle || sample.at.duration_since(ready.since) < sample.window;
    }
    idle && ready.since.duration_since(started) < INITIAL_READINESS
}

impl Target {
    fn ratio(self, sum: &Sum) -> Option<f64> {
        match self {
            Target::Utilization(percent) if percent > 0 => {
                Some(sum.utilization()? as f64 / f64::from(percent))
            }
            Target::Average(milli) if milli > 0 => Some(sum.average()? as f64 / milli as f64),
            _ => None,
        }
    }

    /// What Pods use together that use their whole target.
    fn whole(self, sum: &Sum) -> i128 {
        match self {
            Target::Utilization(percent) => sum.request.saturating_mul(i128::from(percent.max(100))) / 100,
            Target::Average(milli) => i128::from(milli).saturating_mul(i128::from(sum.count)),
        }
    }
}

/// What the Pods use, each, and how many replicas that asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// Replicas of the template.
    pub replicas: i32,
    /// What each uses, in thousandths.
    pub average: i64,
    /// What each uses of what it asked for, in hundredths.
    pub utilization: Option<i32>,
}

/// By what single Pods use.
pub(super) fn by_pods(
    tally: &Tally,
    target: Target,
    scale: Scale,
    tolerance: Tolerance,
) -> Result<Used, String> {
    let unmeasurable =
        || "no share of the target can be told: it, or what the Pods ask for, is nothing".to_owned();
    let counted = &tally.counted;
    let ratio = target.ratio(counted).ok_or_else(unmeasurable)?;
    let replicas = replicas(tally, target, ratio, scale, tolerance).ok_or_else(unmeasurable)?;
    let share = matches!(target, Target::Utilization(_)).then(|| counted.utilization()).flatten();
    Ok(Used {
        replicas,
        average: counted.average().map_or(0, |average| clamped(average, i64::MIN, i64::MAX)),
        utilization: share.map(|share| clamped(share, i32::MIN, i32::MAX)),
    })
}

fn clamped<T: Copy + Into<i128> + TryFrom<i128>>(value: i128, least: T, most: T) -> T {
    T::try_from(value).unwrap_or(if value < least.into() { least } else { most })
}

fn replicas(tally: &Tally, target: Target, ratio: f64, scale: Scale, tolerance: Tolerance) -> Option<i32> {
    let (counted, missing, unready) = (tally.counted, tally.missing, tally.unready);
    let too_much = ratio > 1.0;
    let with_unready = too_much && unready.count > 0;
    if missing.count == 0 && !with_unready {
        let changed = || scale.of_members(ratio * counted.count as f64);
        return Some(if tolerance.bears(ratio) { scale.template } else { changed() });
    }
    let mut all = counted;
    if too_much {
        all = all.with(missing, 0);
    } else if ratio < 1.0 {
        all = all.with(missing, target.whole(&missing));
    }
    if with_unready {
        all = all.with(unready, 0);
    }
    let cautious = target.ratio(&all)?;
    let turned = (cautious > 1.0 && ratio < 1.0) || (cautious < 1.0 && too_much);
    if turned || tolerance.bears(cautious) {
        return Some(scale.template);
    }
    let changed = scale.of_members(cautious * all.count as f64);
    let against = if cautious < 1.0 { changed > scale.template } else { changed < scale.template };
    Some(if against { scale.template } else { changed })
}

/// By an amount of something else, of which there is to be so much for each replica that serves as `target` says, whatever their number.
pub(super) fn by_value(
    milli: i64,
    target: i64,
    pods: &[Pod],
    scale: Scale,
    tolerance: Tolerance,
) -> Result<i32, String> {
    let ratio = share(milli, target)?;
    if scale.template <= 0 {
        return Ok(rounded_up(ratio));
    }
    if tolerance.bears(ratio) {
        return Ok(scale.template);
    }
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    // None of them serving is no reason to have fewer of them.
    match pods.iter().filter(|pod| pod.serves()).count() {
        0 => Err("none of the Pods is ready".to_owned()),
        serving => Ok(scale.of_members(ratio * serving as f64)),
    }
}

/// By an amount of something else, of which `target` is one replica's part. Beside it, what the part of each is now.
pub(super) fn by_average(
    milli: i64,
    target: i64,
    scale: Scale,
    tolerance: Tolerance,
) -> Result<(i32, i64), String> {
    let needed = share(milli, target)?;
    let running = scale.running.max(1);
    let part = (milli as f64 / running as f64).ceil() as i64;
    let replicas = match scale.template {
        template if template <= 0 => rounded_up(needed),
        template if scale.running > 0 && tolerance.bears(needed / scale.running as f64) => template,
        _ => scale.of_members(needed),
    };
    Ok((replicas, part))
}

fn share(milli: i64, target: i64) -> Result<f64, String> {
    if target <= 0 {
        return Err("its target is not above zero".to_owned());
    }
    Ok(milli as f64 / target as f64)
}

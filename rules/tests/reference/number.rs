//! Numbers as `docs/rules.md` wants them.

/// Whole microseconds in seconds.
pub(crate) fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// Neumaier's sum.
pub(crate) fn sum(terms: &[f64]) -> f64 {
    let (mut sum, mut correction) = (0.0_f64, 0.0_f64);
    for &term in terms {
        let next = sum + term;
        if sum.abs() >= term.abs() {
            correction += (sum - next) + term;
        } else {
            correction += (term - next) + sum;
        }
        sum = next;
    }
    sum + correction
}

/// Where `fraction` of the numbers lie below.
pub(crate) fn percentile(numbers: &[f64], fraction: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = fraction * (sorted.len() - 1) as f64;
    let (lower, upper) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let part = place - place.floor();
    if part < 0.5 { lower + (upper - lower) * part } else { upper - (upper - lower) * (1.0 - part) }
}

pub(crate) fn highest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub(crate) fn lowest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

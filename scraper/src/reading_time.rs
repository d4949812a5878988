//! When the readings of a page stand, from what the page says of its sensors.
//!
//! Pure. A page names a sensor by `source` and `sensor`, and says when it was read, on the node's clock, and what its
//! value is a mean over. What cannot be true (a clock that was set in between, a window longer than any meter has) is
//! as if it were not said.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use wattscribe_parser::Labels;

use crate::offset::Offset;

/// A reading is at most this old on its page, in seconds. Past it the times of the page contradict each
/// other (a clock was set between the read and the page), and the scrape's own time is used.
const READING_AGE_MAX_S: f64 = 60.0;

/// A page may be printed to six decimals of a second: its own times may be apart by that.
const READING_SKEW_MAX_S: f64 = 1e-3;

/// What a reading can be a mean over, in seconds. No meter averages over more than a minute; a window moves
/// the reading by half of it, and one that cannot be must not.
const WINDOWS_S: RangeInclusive<f64> = 0.0..=60.0;

/// The labels by which a sample may name its sensor, beside `source`: our families and those of others have the
/// sensor's identity under one of these.
const SENSOR_LABELS: [&str; 4] = ["sensor", "uuid", "pci", "zone"];

/// What a page says about the time of one sensor's reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadingTime {
    /// When it was read, in Unix seconds of the node's clock.
    pub read_at_s: Option<f64>,
    /// What it is a mean over, in seconds.
    pub window_s: Option<f64>,
}

impl ReadingTime {
    /// When it was read, where that can be: a page made at `made_s` shows it.
    pub fn sound_at_s(&self, made_s: Option<f64>) -> Option<f64> {
        let made_s = made_s?;
        let can_be =
            |at_s: &f64| (-READING_SKEW_MAX_S..READING_AGE_MAX_S).contains(&(made_s - at_s));
        self.read_at_s.filter(can_be)
    }
}

/// The times of all sensors of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadingTimes {
    /// By source, then by sensor, so that both are looked up as they stand.
    of: HashMap<String, HashMap<String, ReadingTime>>,
}

impl ReadingTimes {
    /// Takes a time at which a sensor was read, in Unix seconds. Given twice, the first counts.
    pub(crate) fn take_read_at(&mut self, labels: Labels<'_>, at_s: f64) {
        if at_s.is_finite()
            && let Some(time) = self.entry(labels)
        {
            time.read_at_s.get_or_insert(at_s);
        }
    }

    /// Takes what a reading is a mean over, in seconds.
    pub(crate) fn take_window(&mut self, labels: Labels<'_>, window_s: f64) {
        if WINDOWS_S.contains(&window_s)
            && let Some(time) = self.entry(labels)
        {
            time.window_s.get_or_insert(window_s);
        }
    }

    fn entry(&mut self, labels: Labels<'_>) -> Option<&mut ReadingTime> {
        let (source, sensor) = (labels.get("source")?, labels.get("sensor")?);
        let of_source = self.of.entry(source.into_owned()).or_default();
        Some(of_source.entry(sensor.into_owned()).or_default())
    }

    /// What the page says about a sensor.
    pub fn of(&self, source: &str, sensor: &str) -> ReadingTime {
        let time = self.of.get(source).and_then(|sensors| sensors.get(sensor));
        time.copied().unwrap_or_default()
    }

    /// When the value of a sample stands on the head's clock, in Unix microseconds: when its sensor was read, less half
    /// of what it is a mean over. `None` where the page does not say, or cannot be right.
    pub fn stands_at_us(
        &self,
        metric: &str,
        labels: Labels<'_>,
        made_s: Option<f64>,
        offset: Option<Offset>,
    ) -> Option<i64> {
        // What a page says about its sensors is true when the page is made.
        if self.of.is_empty() || metric.starts_with("power_") {
            return None;
        }
        let offset_s = offset?.offset_s;
        let time = match metric.strip_prefix("accelerator_") {
            Some(family) => self.of_accelerator(family, labels)?,
            None => {
                let sensors = self.of.get(labels.get("source")?.as_ref())?;
                let mut named = SENSOR_LABELS.iter().filter_map(|label| labels.get(label));
                *named.find_map(|sensor| sensors.get(sensor.as_ref()))?
            }
        };
        // A count is what it was at its read, and a mean of nothing.
        let window_s = time.window_s.filter(|_| !metric.ends_with("_total"));
        let at_s = time.sound_at_s(made_s)? - window_s.unwrap_or(0.0) / 2.0 - offset_s;
        Some((at_s * 1e6).round() as i64)
    }

    /// What the page says about the sensor behind a sample of an accelerator, whose labels name the device and no source.
    fn of_accelerator(&self, family: &str, labels: Labels<'_>) -> Option<ReadingTime> {
        let component = labels.get("component").unwrap_or_default();
        let component = format!("component/{component}");
        let sensors: &[&str] = match family {
            "power_watts" => &["power"],
            "instant_power_watts" => &["instant"],
            "component_power_watts" => &[&component],
            // A device whose power is the difference of its count has one sensor for both.
            "energy_joules_total" if labels.get("counter").is_some_and(|of| of == "hardware") => {
                &["energy", "power"]
            }
            "energy_joules_total" => &["power"],
            _ => return None,
        };
        let pci = labels.get("pci")?;
        let ids = sensors.iter().map(|sensor| format!("{pci}/{sensor}"));
        let mut found = ids.filter_map(|id| self.of.values().find_map(|of| of.get(&id)));
        found.next().copied()
    }
}

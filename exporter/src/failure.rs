//! Why a sensor gave no number: a closed set that is at once the metric label, the log text and the
//! way to a state.

use std::io;

use wattscribe_rules::State;

/// Why one read of one sensor gave no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The kernel refuses us the file (EACCES, EPERM).
    Denied,
    /// The file or its device is gone (ENOENT, ENODEV, ENXIO).
    Gone,
    /// The driver has no value now (ENODATA).
    NoData,
    /// The meter is switched off (`power*_enable` is 0).
    SwitchedOff,
    /// The device refuses to be read now (EBUSY), as one that is asleep does.
    Busy,
    /// Any other error of the read.
    Io,
    /// The read has not come back within its deadline.
    Timeout,
    /// The text is not a number.
    Malformed,
    /// The firmware says that it does not know: 0xFFFFFFFF mW (lm-sensors#460).
    SensorUnknown,
    /// A power below zero.
    Negative,
    /// A zero from a sensor that cannot read zero, or so little that it would be printed as zero.
    Zero,
    /// More than the sensor can mean: its own cap, or what anything with one sensor draws.
    OverLimit,
    /// A counter that moved in a way that energy cannot.
    ImplausibleStep,
    /// A counter that started anew; the interval across it has no energy.
    CounterReset,
    /// The host slept between two reads of a counter.
    HostSuspended,
    /// A rate needs two reads, and there is one.
    FirstRead,
    /// The device says that it does not measure this.
    NotSupported,
    /// DCGM has no value yet.
    Blank,
    /// DCGM or NVML knows no such field or device.
    NotFound,
    /// DCGM or NVML refuses us the value.
    NotPermitted,
    /// The library does not serve now: no driver, no engine, or it has to be initialised again.
    Disconnected,
    /// The library's own time of the value lies ahead of this node's clock.
    Ahead,
    /// Runtime power management holds the device asleep, and it is not woken.
    Asleep,
    /// The firmware gives the same reading again and again, by the time that it has for it.
    Frozen,
}

impl Failure {
    /// All of them, in the order of their counters.
    pub const ALL: [Failure; 24] = [
        Self::Denied,
        Self::Gone,
        Self::NoData,
        Self::SwitchedOff,
        Self::Busy,
        Self::Io,
        Self::Timeout,
        Self::Malformed,
        Self::SensorUnknown,
        Self::Negative,
        Self::Zero,
        Self::OverLimit,
        Self::ImplausibleStep,
        Self::CounterReset,
        Self::HostSuspended,
        Self::FirstRead,
        Self::NotSupported,
        Self::Blank,
        Self::NotFound,
        Self::NotPermitted,
        Self::Disconnected,
        Self::Ahead,
        Self::Asleep,
        Self::Frozen,
    ];

    /// What an error of the operating system means for a sensor.
    pub fn from_io(error: &io::Error) -> Self {
        // Numbers of Linux' errno that std has no stable kind for.
        const ENXIO: i32 = 6;
        const EBUSY: i32 = 16;
        const ENODEV: i32 = 19;
        const ENODATA: i32 = 61;
        match error.raw_os_error() {
            Some(ENXIO | ENODEV) => Self::Gone,
            Some(ENODATA) => Self::NoData,
            Some(EBUSY) => Self::Busy,
            _ => match error.kind() {
                io::ErrorKind::PermissionDenied => Self::Denied,
                io::ErrorKind::NotFound => Self::Gone,
                _ => Self::Io,
            },
        }
    }

    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Gone => "gone",
            Self::NoData => "no_data",
            Self::SwitchedOff => "switched_off",
            Self::Busy => "busy",
            Self::Io => "io",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::SensorUnknown => "sensor_unknown",
            Self::Negative => "negative",
            Self::Zero => "zero",
            Self::OverLimit => "over_limit",
            Self::ImplausibleStep => "implausible_step",
            Self::CounterReset => "counter_reset",
            Self::HostSuspended => "host_suspended",
            Self::FirstRead => "first_read",
            Self::NotSupported => "not_supported",
            Self::Blank => "blank",
            Self::NotFound => "not_found",
            Self::NotPermitted => "not_permitted",
            Self::Disconnected => "disconnected",
            Self::Ahead => "ahead",
            Self::Asleep => "asleep",
            Self::Frozen => "frozen",
        }
    }

    /// The state of a reading that failed this way.
    pub fn state(self) -> State {
        match self {
            Self::Denied | Self::NotPermitted => State::Denied,
            Self::Gone => State::Lost,
            Self::NotSupported => State::Unsupported,
            Self::NoData | Self::SensorUnknown | Self::Zero | Self::FirstRead => State::Unavailable,
            Self::Blank | Self::NotFound | Self::Disconnected => State::Unavailable,
            Self::SwitchedOff => State::Disabled,
            Self::Busy | Self::Asleep | Self::HostSuspended => State::Suspended,
            Self::Io | Self::Malformed => State::Transient,
            Self::Timeout | Self::Frozen => State::Stale,
            Self::Negative | Self::OverLimit | Self::ImplausibleStep | Self::Ahead => {
                State::Implausible
            }
            Self::CounterReset => State::Transient,
        }
    }

    /// Whether it counts as a read error. The first read of a counter is how a counter starts, and a device that sleeps
    /// is not read at all.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::FirstRead | Self::Asleep)
    }

    /// Whether the sensor failed. One that was read, and whose value only cannot be set against the one before, is
    /// read on without a pause.
    pub fn is_of_the_sensor(self) -> bool {
        !matches!(self, Self::FirstRead | Self::CounterReset | Self::HostSuspended | Self::Asleep)
    }

    /// Its place in [`Failure::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_place_and_its_word() {
        for (place, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure.index(), place, "{failure:?}");
            assert_ne!(failure.state(), State::Ok, "{failure:?}");
            let words = Failure::ALL.map(Failure::as_str);
            assert_eq!(words.iter().filter(|word| **word == failure.as_str()).count(), 1);
        }
    }

    #[test]
    fn errors_of_the_system_have_their_meaning() {
        let cases = [
            (1, Failure::Denied, State::Denied),       // EPERM
            (2, Failure::Gone, State::Lost),           // ENOENT
            (5, Failure::Io, State::Transient),        // EIO
            (6, Failure::Gone, State::Lost),           // ENXIO
            (11, Failure::Io, State::Transient),       // EAGAIN
            (13, Failure::Denied, State::Denied),      // EACCES
            (16, Failure::Busy, State::Suspended),     // EBUSY
            (19, Failure::Gone, State::Lost),          // ENODEV
            (21, Failure::Io, State::Transient),       // EISDIR
            (22, Failure::Io, State::Transient),       // EINVAL
            (61, Failure::NoData, State::Unavailable), // ENODATA
        ];
        for (errno, failure, state) in cases {
            let found = Failure::from_io(&io::Error::from_raw_os_error(errno));
            assert_eq!((found, found.state()), (failure, state), "errno {errno}");
        }
    }
}

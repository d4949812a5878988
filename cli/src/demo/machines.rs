//! The machines of the demo: two Grace nodes and one with RAPL, a waveform on every socket.

use wattscribe_simulator::{GraceSocket, HwmonLayout, Kind, Machine, RaplPackage, Waveform};

/// When the step comes, in seconds of the simulation: at the edge between the two windows.
const STEP_S: f64 = 9.0;

/// When the second package's counter passes its range: inside the first window.
const WRAP_S: f64 = 6.5;

/// Grace firmware averages over 50 ms.
const AVERAGING_MS: u32 = 50;

/// The nodes.
pub(crate) fn machines() -> Vec<Machine> {
    let grace = |name: &str, layout, waves: [Waveform; 2]| Machine {
        name: name.to_owned(),
        kind: Kind::Grace {
            layout,
            averaging_ms: AVERAGING_MS,
            sockets: (0..).zip(waves).map(|(id, wave)| GraceSocket::new(id, wave)).collect(),
        },
    };
    let constant = Waveform::Constant { watts: 94.29 };
    let ramp = Waveform::Ramp { from_w: 60.0, to_w: 180.0, duration_s: 16.0 };
    let square = Waveform::Square { low_w: 80.0, high_w: 160.0, period_s: 4.0, duty: 0.5 };
    let step = Waveform::Step { before_w: 95.0, after_w: 210.0, at_s: STEP_S };
    let sine = Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 5.0, phase_rad: 0.0 };
    let slow = Waveform::Sine { mean_w: 150.0, amplitude_w: 60.0, period_s: 8.0, phase_rad: 1.0 };
    let packages = vec![RaplPackage::new(0, sine), RaplPackage::new(1, slow).wrapping_at(WRAP_S)];
    vec![
        grace("grace-a", HwmonLayout::Old, [constant, ramp]),
        grace("grace-b", HwmonLayout::New, [square, step]),
        Machine { name: "x86-c".to_owned(), kind: Kind::Rapl { packages } },
    ]
}

/// The waveform of every socket of a machine.
pub(crate) fn waves(machine: &Machine) -> Vec<(u32, Waveform)> {
    match &machine.kind {
        Kind::Grace { sockets, .. } => {
            sockets.iter().map(|socket| (socket.socket, socket.total)).collect()
        }
        Kind::Rapl { packages } => {
            packages.iter().map(|package| (package.socket, package.package)).collect()
        }
    }
}

/// What a waveform does, in a few words.
pub(crate) fn describe(wave: &Waveform) -> String {
    match wave {
        Waveform::Constant { watts } => format!("constant {watts} W"),
        Waveform::Ramp { from_w, to_w, duration_s } => {
            format!("ramp {from_w} to {to_w} W in {duration_s} s")
        }
        Waveform::Square { low_w, high_w, period_s, .. } => {
            format!("square {low_w}/{high_w} W each {period_s} s")
        }
        Waveform::Sine { mean_w, amplitude_w, period_s, .. } => {
            format!("sine {mean_w} +/- {amplitude_w} W each {period_s} s")
        }
        Waveform::Step { before_w, after_w, at_s } => {
            format!("step {before_w} to {after_w} W at {at_s} s")
        }
    }
}

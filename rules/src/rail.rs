//! Which part of a socket a firmware label names: the one table that exporter and recorder share.
//!
//! The labels come from `powerN_oem_info` of the kernel's `acpi_power_meter` driver. They are free text of the
//! firmware, at most 128 bytes, so case, runs of blanks, a trailing NUL or newline, the word "Input" and the text
//! "in uW" all vary and carry no meaning. The kernel's value is in microwatts whatever the label says.

use std::fmt;

/// A part of a socket whose power a sensor measures. The parts are inside the total and are never added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RailKind {
    /// The whole socket.
    Total,
    /// The rail of the cores.
    CpuRail,
    /// The rail of everything else on the die.
    Soc,
    /// The memory of the socket.
    Dram,
    /// A label that names none of these; it belongs to no socket and to no sum.
    Other,
}

impl RailKind {
    /// Every kind. The order is also the rank by which one reading is chosen for a socket: the total first.
    pub const ALL: [RailKind; 5] =
        [RailKind::Total, RailKind::CpuRail, RailKind::Soc, RailKind::Dram, RailKind::Other];

    /// The word used as the `type` label.
    pub const fn as_str(self) -> &'static str {
        match self {
            RailKind::Total => "total",
            RailKind::CpuRail => "cpu_rail",
            RailKind::Soc => "soc",
            RailKind::Dram => "dram",
            RailKind::Other => "other",
        }
    }

    /// Reads a `type` label, the older words `grace`, `cpu` and `sysio` among them. `None` for any other word.
    pub fn from_type_label(word: &str) -> Option<RailKind> {
        match word {
            "total" | "grace" => Some(RailKind::Total),
            "cpu_rail" | "cpu" => Some(RailKind::CpuRail),
            "soc" | "sysio" => Some(RailKind::Soc),
            "dram" => Some(RailKind::Dram),
            "other" => Some(RailKind::Other),
            _ => None,
        }
    }
}

impl fmt::Display for RailKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rail {
    /// The part of the socket.
    pub kind: RailKind,
    /// The socket's number as the label gives it, which need not be dense. `None` exactly when `kind` is `Other`.
    pub socket: Option<u32>,
}

impl Rail {
    /// What a label is that the table does not know.
    pub const OTHER: Rail = Rail { kind: RailKind::Other, socket: None };
}

/// How each kind begins. A phrase is: these words, "input" or not, "power", "in uw" or not, "socket", a number.
///
/// Earlier rows win over the whole label: "Grace Power Socket 1 CPU Power" is a total.
const TABLE: [(RailKind, &[&str]); 7] = [
    (RailKind::Total, &["grace"]),
    (RailKind::Total, &["total"]),
    (RailKind::CpuRail, &["cpu", "rail"]),
    (RailKind::CpuRail, &["cpu"]),
    (RailKind::Soc, &["soc", "rail"]),
    (RailKind::Soc, &["sysio"]),
    (RailKind::Dram, &["dram"]),
];

/// Words that make a label measure something else, wherever they stand: power delivered, not drawn; an energy; a
/// count; or the module, which contains accelerators as well and is no part of a socket.
const FOREIGN: [&str; 4] = ["output", "energy", "throttle", "module"];

/// Finds the kind and the socket in a firmware label.
///
/// The phrase may stand inside a longer label, but its words must be whole words with only blanks between them. A
/// label without such a phrase, or whose socket number exceeds `u32`, is [`Rail::OTHER`].
pub fn classify(label: &str) -> Rail {
    let words = words(label);
    if words.iter().any(|word| FOREIGN.contains(&word.text.as_str())) {
        return Rail::OTHER;
    }
    TABLE
        .iter()
        .find_map(|(kind, head)| {
            let socket = (0..words.len()).find_map(|at| socket_of_phrase(&words[at..], head))?;
            Some(Rail { kind: *kind, socket: Some(socket) })
        })
        .unwrap_or(Rail::OTHER)
}

/// One word of a label in lower case, and whether only blanks stand between it and the word before.
struct Word {
    text: String,
    follows: bool,
}

/// Splits a label into runs of letters, digits and underscores. A NUL counts as a blank: some firmware pads with it.
fn words(label: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut text = String::new();
    let mut follows = true;
    for letter in label.chars().chain(['\0']) {
        if letter.is_alphanumeric() || letter == '_' {
            text.push(letter.to_ascii_lowercase());
            continue;
        }
        if !text.is_empty() {
            words.push(Word { text: std::mem::take(&mut text), follows });
            follows = true;
        }
        follows &= letter == '\0' || letter.is_whitespace();
    }
    words
}

/// The socket number when `words` begin with the phrase that `head` opens.
fn socket_of_phrase(words: &[Word], head: &[&str]) -> Option<u32> {
    let (first, rest) = words.split_first()?;
    let (opening, others) = head.split_first()?;
    if first.text != *opening {
        return None;
    }
    let rest = skip(rest, others)?;
    let rest = skip(rest, &["input"]).unwrap_or(rest);
    let rest = skip(rest, &["power"])?;
    let rest = skip(rest, &["in", "uw"]).unwrap_or(rest);
    let (word, tail) = rest.split_first().filter(|(word, _)| word.follows)?;
    let digits = match word.text.strip_prefix("socket")? {
        "" => tail.first().filter(|word| word.follows)?.text.as_str(),
        joined => joined,
    };
    digits.parse().ok()
}

/// What is left after `expected`, or `None` when `words` do not begin with it.
fn skip<'a>(words: &'a [Word], expected: &[&str]) -> Option<&'a [Word]> {
    let (head, tail) = words.split_at_checked(expected.len())?;
    let matches = head.iter().zip(expected).all(|(word, text)| word.follows && word.text == *text);
    matches.then_some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RailKind::{CpuRail, Dram, Soc, Total};

    fn check(label: &str, expected: Option<(RailKind, u32)>) {
        let expected =
            expected.map_or(Rail::OTHER, |(kind, socket)| Rail { kind, socket: Some(socket) });
        assert_eq!(classify(label), expected, "{label:?}");
    }

    #[test]
    fn every_form_of_every_kind() {
        let heads = [
            ("Grace", Total),
            ("Total", Total),
            ("CPU Rail", CpuRail),
            ("CPU", CpuRail),
            ("SoC Rail", Soc),
            ("SysIO", Soc),
            ("DRAM", Dram),
        ];
        for (head, kind) in heads {
            for input in ["", " Input"] {
                for unit in ["", " in uW"] {
                    for socket in [0, 1, 12, u32::MAX] {
                        let label = format!("{head}{input} Power{unit} Socket {socket}");
                        check(&label, Some((kind, socket)));
                        check(&label.to_uppercase(), Some((kind, socket)));
                        check(&label.to_lowercase(), Some((kind, socket)));
                    }
                }
            }
        }
    }

    #[test]
    fn spelling_that_carries_no_meaning() {
        for label in [
            "Grace Power Socket0",
            "  Grace   Power\tSocket  0 ",
            "Grace Power Socket 0\n",
            "Grace Power Socket 0\0\0",
            "Grace Power Socket 00",
            "(Grace Power Socket 0)",
            "Grace Power Socket 0, é",
            "Grace Power Socket 0 CPU Power",
            "CPU Power Socket 7 Grace Power Socket 0",
            "Grace Power Socket x Grace Power Socket 0",
        ] {
            check(label, Some((Total, 0)));
        }
        check(&format!("CPU Power Socket 3{:>110}", "x"), Some((CpuRail, 3)));
        check("Grace Power Socket 1 CPU Power", Some((Total, 1)));
        check("Grace CPU Power Socket 1", Some((CpuRail, 1)));
    }

    #[test]
    fn labels_that_are_no_rail() {
        for label in [
            "",
            "\0",
            "CPU Rail Output Power in uW socket 0",
            "Grace Output Power Socket 0",
            "Grace Power Socket 0 Output",
            "Grace Energy Socket 0",
            "Total CPU Energy In uJ socket 0",
            "Chipthrot DDR Throttle (samples x1000) socket 0",
            "CPU Power Socket 0 Throttle",
            "Module Socket A",
            "Module Power Socket 0",
            "Module CPU Power Socket 0",
            "CPU Power Socket \"x",
            "CPU Power Socket \"0\"",
            "CPU Power Socket",
            "CPU Power Socket -1",
            "CPU Power Socket 0abc",
            "CPU Power Socket 0_1",
            "CPU Power Socket 4294967296",
            "CPU Power Socket 99999999999999999999999999",
            "CPU Power Socket \u{0661}",
            "CPU Power Sockets 0",
            "CPU Power 0",
            "CPU-Power Socket 0",
            "CPU Rail-Power Socket 0",
            "CPU/Rail Power Socket 0",
            "CPU Power in Socket 0",
            "Disgrace Power Socket 0",
            "my_Grace Power Socket 0",
            "éGrace Power Socket 0",
            "Grace Powers Socket 0",
            "SoC Power Socket 0",
            "NVSwitch Power 0",
        ] {
            check(label, None);
        }
    }

    #[test]
    fn type_labels() {
        for kind in RailKind::ALL {
            assert_eq!(RailKind::from_type_label(kind.as_str()), Some(kind));
        }
        let cases = [
            ("grace", Some(Total)),
            ("cpu", Some(CpuRail)),
            ("sysio", Some(Soc)),
            ("module", None),
            ("", None),
            ("Total", None),
        ];
        for (word, expected) in cases {
            assert_eq!(RailKind::from_type_label(word), expected, "{word:?}");
        }
    }
}

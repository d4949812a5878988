//! Doubles as Python's `repr` prints them, so that a file of ours and one of a Python recorder differ in no byte.

/// Appends the shortest decimal text that reads back as the same double.
///
/// The exponent form begins below 1e-4 and at 1e16 and its exponent has a sign and at least two digits, as
/// `float.__repr__` has it: <https://docs.python.org/3/library/functions.html#repr>.
pub(super) fn push_repr(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    let (digits, exponent) = shortest(magnitude);
    if (-4..16).contains(&exponent) {
        push_fixed(&digits, exponent, out);
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
}

/// The fewest digits that identify the double, and the power of ten of the first.
///
/// Where two candidates are equally near, Python takes the even one and Rust's shortest form the upper. Both then have
/// at least fifteen digits, since decimals of fifteen digits are doubles apart; rounding to as many digits decides.
fn shortest(magnitude: f64) -> (Vec<u8>, i32) {
    let (mut digits, mut exponent) = scientific(&format!("{magnitude:e}"));
    if digits.len() >= 15 {
        let even = format!("{magnitude:.*e}", digits.len() - 1);
        if even.parse() == Ok(magnitude) {
            (digits, exponent) = scientific(&even);
        }
    }
    (digits, exponent)
}

/// Takes `1.25e-7` apart: digits and exponent.
fn scientific(text: &str) -> (Vec<u8>, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    (digits, exponent.parse().unwrap_or(0))
}

fn push_fixed(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    let Ok(last_whole) = usize::try_from(exponent) else {
        out.extend_from_slice(b"0.");
        out.extend((exponent..-1).map(|_| b'0'));
        return out.extend_from_slice(digits);
    };
    let digit = |at: usize| digits.get(at).copied().unwrap_or(b'0');
    out.extend((0..=last_whole).map(digit));
    out.push(b'.');
    out.extend((last_whole + 1..digits.len().max(last_whole + 2)).map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn repr(value: f64) -> String {
        let mut out = Vec::new();
        push_repr(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_forms() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (100.0, "100.0"),
            (94.29, "94.29"),
            (1788310143.461, "1788310143.461"),
            (1788310143.461001, "1788310143.461001"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-4, "0.0001"),
            (9.999e-5, "9.999e-05"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.2345e22, "1.2345e+22"),
            (1234567.0, "1234567.0"),
            (5e-324, "5e-324"),
            // Exactly between two texts of the same length.
            (667082108456853.0 + 0.25, "667082108456853.2"),
            (1788310143.0 + 1.0 / 256.0, "1788310143.0039062"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(repr(value), expected);
        }
    }

    proptest! {
        #[test]
        fn reads_back(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            prop_assert_eq!(repr(value).parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
        }
    }

    /// Compares with Python itself where there is one; elsewhere the table above must do.
    #[test]
    fn agrees_with_python() {
        let program = "import sys, struct\n\
            for line in sys.stdin: print(repr(struct.unpack('>d', bytes.fromhex(line))[0]))";
        let started = Command::new("python3")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut python) = started else { return };
        // A multiplicative generator over bit patterns reaches every exponent; the rest are powers of two and watts.
        let random = std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |bits| {
            Some(bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407))
        });
        let values: Vec<f64> = random
            .take(20_000)
            .map(f64::from_bits)
            .chain((-1074..1024).map(|exponent| 2f64.powi(exponent)))
            .chain((0..20_000).map(|thousandth| f64::from(thousandth) / 1000.0))
            .filter(|value| !value.is_nan())
            .collect();
        let input: String =
            values.iter().map(|value| format!("{:016x}\n", value.to_bits())).collect();
        let mut stdin = python.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = python.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines.lines().count(), values.len());
        for (value, expected) in values.into_iter().zip(lines.lines()) {
            assert_eq!(repr(value), expected);
        }
    }
}

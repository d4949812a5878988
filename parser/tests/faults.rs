//! What the reader refuses, and the exact words it has for it.

use std::collections::HashSet;

use wattscribe_parser::{Entry, Exposition, Fault, FaultKind, Limits, samples};

fn first_fault(body: &[u8], limits: Limits) -> Fault {
    match Exposition::with_limits(body, limits) {
        Ok(mut entries) => entries.find_map(Result::err).expect("a fault"),
        Err(fault) => fault,
    }
}

fn check(body: impl AsRef<[u8]>, expected: &str) {
    let body = body.as_ref();
    let fault = first_fault(body, Limits::default());
    assert_eq!(fault.to_string(), expected, "{}", body.escape_ascii());
}

#[test]
fn names() {
    check("1a 1", "1:1: expected a metric name, found `1a 1`");
    check("é 1", "1:1: expected a metric name, found `é 1`");
    check("\"my.metric\" 1", "1:1: expected a metric name, found `\"my.metric\" 1`");
    check("<html></html>", "1:1: expected a metric name, found `<html></html>`");
    check("{\"\"} 1", "1:2: expected a metric name, found `\"\"} 1`");
    check("a-b 1", "1:2: expected a blank after the name, found `-b 1`");
    check("ok 1\n  a.b 1", "2:4: expected a blank after the name, found `.b 1`");
    check("y\"} 1", "1:2: expected a blank after the name, found `\"} 1`");
    check("{} 1", "1:1: expected a metric name before or inside the braces, found `{} 1`");
    check(
        "{a=\"b\"} 1",
        "1:1: expected a metric name before or inside the braces, found `{a=\"b\"} 1`",
    );
}

#[test]
fn labels() {
    check("a{,} 1", "1:3: expected a label name, found `,} 1`");
    check("a{b=\"c\",,} 1", "1:9: expected a label name, found `,} 1`");
    check("a{=\"\"} 1", "1:3: expected a label name, found `=\"\"} 1`");
    check("a{\"\"=\"b\"} 1", "1:3: expected a label name, found `\"\"=\"b\"} 1`");
    check("a{é=\"b\"} 1", "1:3: expected a label name, found `é=\"b\"} 1`");
    check("a{", "1:3: expected a label name, found the end of the line");
    check("a{b} 1", "1:4: expected `=` after the label name, found `} 1`");
    check("a{b:c=\"d\"} 1", "1:4: expected `=` after the label name, found `:c=\"d\"} 1`");
    check("{\"a\",\"b\"} 1", "1:9: expected `=` after the label name, found `} 1`");
    check("a{\"b\"} 1", "1:6: expected `=` after the label name, found `} 1`");
    check("a{\"n\":\"b\"} 1", "1:6: expected `=` after the label name, found `:\"b\"} 1`");
    check("a{b=c} 1", "1:5: expected a label value in double quotes, found `c} 1`");
    check("a{b='c'} 1", "1:5: expected a label value in double quotes, found `'c'} 1`");
    check("a{b=", "1:5: expected a label value in double quotes, found the end of the line");
    check("a{b=\"c\" 1", "1:9: expected `,` or `}` after the label, found `1`");
    check("a{b=\"c\"d=\"e\"} 1", "1:8: expected `,` or `}` after the label, found `d=\"e\"} 1`");
    check("a{b=\"c\",", "1:9: expected a label name, found the end of the line");
    check("a{b=\"c\"", "1:8: expected `,` or `}` after the label, found the end of the line");
}

#[test]
fn quotes_that_do_not_close() {
    check("a{b=\"x", "1:7: expected a closing `\"`, found the end of the line");
    check("a{b=\"x\ny\"} 1", "1:7: expected a closing `\"`, found the end of the line");
    check("a{b=\"x\\\"} 1", "1:12: expected a closing `\"`, found the end of the line");
    check("a{b=\"x\\", "1:8: expected a closing `\"`, found the end of the line");
    check("{\"x", "1:4: expected a closing `\"`, found the end of the line");
}

#[test]
fn labels_given_twice() {
    check("a{b=\"1\",c=\"2\",b=\"1\"} 1", "1:15: expected each label once, found `b` again");
    check("a{b=\"1\",\"b\"=\"2\"} 1", "1:10: expected each label once, found `b` again");
    // The same name in two spellings.
    check(r#"a{"\x"="1","\\x"="2"} 1"#, r"1:13: expected each label once, found `\\x` again");
    let reserved = "expected a label that is not the metric's own name, found `__name__`";
    check("a{__name__=\"b\"} 1", &format!("1:3: {reserved}"));
    check("{\"a\",\"__name__\"=\"b\"} 1", &format!("1:7: {reserved}"));

    let names: Vec<String> = (0..100).map(|n| format!("l{}=\"v\"", n % 99)).collect();
    let column = names[..99].join(",").len() + "a{,".len() + 1;
    let expected = format!("1:{column}: expected each label once, found `l0` again");
    check(format!("a{{{}}} 1", names.join(",")), &expected);
}

#[test]
fn values() {
    check("a", "1:2: expected a number, found the end of the line");
    check("a \t", "1:4: expected a number, found the end of the line");
    check("a{b=\"c\"}", "1:9: expected a number, found the end of the line");
    for word in [
        "12W", "1f", "1e", "1,5", "--5", "0x10", "0x1p-3", "0b1", "1_000", "true", "\"1\"",
        "nan(0x1)", "-NaN", "+nan", "1#c", ".", "-", "infin",
    ] {
        check(format!("a {word}\n"), &format!("1:3: expected a number, found `{word}`"));
    }
    for word in ["1e400", "-1e400", &"9".repeat(400)[..]] {
        assert_eq!(
            samples(format!("a {word}").as_bytes()).unwrap_err().kind,
            FaultKind::ValueRange
        );
    }
    check("a 1e400", "1:3: expected a number that a double can hold, found `1e400`");
}

#[test]
fn timestamps_and_what_follows() {
    for word in ["1e3", "1.5", "0x10", "#", "st@1520872607.123", "-"] {
        let expected = format!("1:5: expected a timestamp in whole milliseconds, found `{word}`");
        check(format!("a 1 {word}\n"), &expected);
    }
    for word in ["9223372036854775808", "-9223372036854775809"] {
        let expected = format!("1:5: expected a timestamp of 64 bits, found `{word}`");
        check(format!("a 1 {word}\n"), &expected);
    }
    check("a 1 1 2", "1:7: expected the end of the line, found `2`");
    check("a 1 1 # note", "1:7: expected the end of the line, found `# note`");
}

#[test]
fn metadata() {
    let kinds = "expected counter, gauge, histogram, summary or untyped";
    check("# TYPE a gauges", &format!("1:10: {kinds}, found `gauges`"));
    check("# TYPE a GAUGE", &format!("1:10: {kinds}, found `GAUGE`"));
    check("# TYPE a unknown", &format!("1:10: {kinds}, found `unknown`"));
    check("# TYPE a", &format!("1:9: {kinds}, found the end of the line"));
    check("# TYPE a gauge x", "1:16: expected the end of the line, found `x`");
    check("# TYPE a-b gauge", "1:9: expected a blank after the name, found `-b gauge`");
    check("# HELP \"a\"b c", "1:11: expected a blank after the name, found `b c`");
    check("# HELP 9 c", "1:8: expected a metric name, found `9 c`");
    check("# HELP \"\" c", "1:8: expected a metric name, found `\"\" c`");
    check("# HELP \"a c", "1:12: expected a closing `\"`, found the end of the line");
}

#[test]
fn foreign_line_ends() {
    let line_end = "expected lines that end in a line feed alone, found a carriage return";
    check("a 25.88\r\n", &format!("1:8: {line_end}"));
    check("a 1 \r\n", &format!("1:5: {line_end}"));
    check("\r\na 1\n", &format!("1:1: {line_end}"));
    check("# TYPE a gauge\r\n", &format!("1:15: {line_end}"));
    check("# HELP a b\r\n", &format!("1:11: {line_end}"));
    check("# note\r\n", &format!("1:7: {line_end}"));
    check("# note\ra 1\n", &format!("1:7: {line_end}"));
    check("a 1\rb 2\n", &format!("1:4: {line_end}"));
    check("a\r1\n", &format!("1:2: {line_end}"));
}

#[test]
fn bytes_that_are_no_text() {
    check("a 0 1\0", "1:6: expected text, found a NUL byte");
    check("a\0 1", "1:2: expected text, found a NUL byte");
    check("a 1\n\0\nb 2", "2:1: expected text, found a NUL byte");
    check("# a\0b", "1:4: expected text, found a NUL byte");
    check("a{\"b\0\"=\"c\"} 1", "1:5: expected text, found a NUL byte");
    check("\u{feff}a 1", "1:1: expected a metric name, found a byte order mark");
    check(b"a{b=\"\xff\"} 1", "1:6: expected UTF-8, found byte 0xff");
    check(b"a{b=\"\xc0\x80\"} 1", "1:6: expected UTF-8, found byte 0xc0");
    check(b"a 1\n# \xc3\xa9\xed\xa0\x80", "2:4: expected UTF-8, found byte 0xed");
    check(b"a 1\n# \xe2\x82", "2:3: expected UTF-8, found half a character at the end of the body");
}

#[test]
fn excerpts_are_short_and_printable() {
    check("a \u{1b}[1m", "1:3: expected a number, found `\\u{1b}[1m`");
    let expected = format!("1:3: expected a number, found `{}…`", "x".repeat(40));
    check(format!("a {}", "x".repeat(41)), &expected);
    // Columns count characters, not bytes.
    check("a{b=\"😀\"} x", "1:10: expected a number, found `x`");
}

#[test]
fn sizes_over_the_limits() {
    let limits =
        Limits { body_bytes: 40, line_bytes: 30, labels: 1, name_bytes: 4, value_bytes: 6 };
    let check = |body: &str, expected: &str| {
        assert_eq!(first_fault(body.as_bytes(), limits).to_string(), expected, "{body}");
    };
    check(&"\n".repeat(41), "1:1: expected a body within the limit, found more than 40 bytes");
    check(
        &format!("a 1\n# {}", "x".repeat(29)),
        "2:1: expected a line within the limit, found more than 30 bytes",
    );
    check("a{b=\"\",c=\"\"} 1", "1:8: expected labels within the limit, found more than 1");
    for (body, column) in [
        ("abcde 1", 1),
        ("a{abcde=\"\"} 1", 3),
        ("{\"abcde\"} 1", 3),
        ("# TYPE abcde gauge", 8),
        ("# HELP \"abcde\" x", 9),
    ] {
        let expected = "expected a name within the limit, found more than 4 bytes";
        check(body, &format!("1:{column}: {expected}"));
    }
    check(
        "a{b=\"1234567\"} 1",
        "1:6: expected a label value within the limit, found more than 6 bytes",
    );
}

#[test]
fn reading_goes_on_after_a_fault() {
    let body = b"a 1\nb{ 2\n# TYPE c gouge\nc 3\n\xc3\xa9 4\nd 5";
    let mut read = Vec::new();
    let mut faults = Vec::new();
    for entry in Exposition::new(body).unwrap() {
        match entry {
            Ok(Entry::Sample(sample)) => read.push((sample.line, sample.value)),
            Ok(_) => {}
            Err(fault) => faults.push((fault.line, fault.kind.as_str())),
        }
    }
    assert_eq!(read, [(1, 1.0), (4, 3.0), (6, 5.0)]);
    assert_eq!(faults, [(2, "label_name"), (3, "metric_kind"), (5, "metric_name")]);
    assert_eq!(samples(body).unwrap_err().line, 2);
}

#[test]
fn kinds_have_names_of_their_own() {
    let names: HashSet<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), FaultKind::ALL.len());
}

//! What the reader accepts, and what it makes of it.

use wattscribe_parser::{Entry, Exposition, Limits, samples};

/// Reads the body and compares each entry, printed on one line: texts unescaped and quoted, labels
/// in order, values as Rust prints them, timestamps after `@`.
fn check(body: &str, expected: &[&str]) {
    let exposition = Exposition::new(body.as_bytes()).expect("a body within the limits, in UTF-8");
    let read: Vec<String> = exposition
        .map(|entry| match entry {
            Ok(Entry::Sample(it)) => {
                let at = it.timestamp_ms.map(|ms| format!(" @{ms}")).unwrap_or_default();
                format!("{:?}{:?} {:?}{at}", it.name, it.labels, it.value)
            }
            Ok(Entry::Type { name, kind }) => format!("TYPE {name:?} {}", kind.as_str()),
            Ok(Entry::Help { name, text }) => format!("HELP {name:?} {text:?}"),
            Err(fault) => format!("fault {fault}"),
        })
        .collect();
    assert_eq!(read, expected, "{body:?}");
}

#[test]
fn samples_and_blanks() {
    check("", &[]);
    check("watts 1\n", &[r#""watts"{} 1.0"#]);
    check("watts 1", &[r#""watts"{} 1.0"#]);
    check("watts\t 1 \t\n", &[r#""watts"{} 1.0"#]);
    check(" \twatts 1\n", &[r#""watts"{} 1.0"#]);
    check("\n \t\n\nwatts 1\n\n:x_9 2\n", &[r#""watts"{} 1.0"#, r#"":x_9"{} 2.0"#]);
    check("_ 1 0\n", &[r#""_"{} 1.0 @0"#]);
    check("w{}7\n", &[r#""w"{} 7.0"#]);
    check("w{a=\"b\"}11\n", &[r#""w"{"a": "b"} 11.0"#]);
    check("w {\ta = \"b\" ,c=\t\"d\" , } 1\t-5 \n", &[r#""w"{"a": "b", "c": "d"} 1.0 @-5"#]);
}

#[test]
fn label_values_hold_anything() {
    let check = |raw: &str, meaning: &str| {
        check(
            &format!("w{{a=\"{raw}\",b=\"2\"}} 1\n"),
            &[&format!(r#""w"{{"a": {meaning:?}, "b": "2"}} 1.0"#)],
        );
    };
    check("", "");
    check("{x},y=z # ", "{x},y=z # ");
    check("é😀\u{feff}", "é😀\u{feff}");
    check("a\0b\tc\rd", "a\0b\tc\rd");
    check(r"\\", r"\");
    check(r#"\""#, "\"");
    check(r"\n", "\n");
    check(r"\\n", r"\n");
    check(r#"\\\"\n\\"#, "\\\"\n\\");
    check(r"\t", r"\t");
    check(r"C:\DIR\F", r"C:\DIR\F");
    check(r"\é", r"\é");
}

#[test]
fn quoted_names() {
    check(r#"{"my.metric"} 1"#, &[r#""my.metric"{} 1.0"#]);
    check(r#"{ "my.metric" , "l.x" = "v", } 1 2"#, &[r#""my.metric"{"l.x": "v"} 1.0 @2"#]);
    check(r#"{a="b","my.metric",c="d"} 1"#, &[r#""my.metric"{"a": "b", "c": "d"} 1.0"#]);
    check(r#"m{"l.x"="v"}1"#, &[r#""m"{"l.x": "v"} 1.0"#]);
    check(r#"{"a\"b\\"} 1"#, &[r#""a\"b\\"{} 1.0"#]);
    check(
        "# TYPE \"my.m\" gauge\n# HELP \"my.m\" of \"mine\"\n",
        &[r#"TYPE "my.m" gauge"#, r#"HELP "my.m" "of \"mine\"""#],
    );
}

#[test]
fn metadata_and_comments() {
    check(
        "# TYPE a counter\n#\tTYPE\tb \t histogram \n",
        &[r#"TYPE "a" counter"#, r#"TYPE "b" histogram"#],
    );
    check("# TYPE a summary\n # TYPE a untyped\n", &[r#"TYPE "a" summary"#, r#"TYPE "a" untyped"#]);
    check(
        "# HELP a  two words\n# HELP b\n# HELP c \n",
        &[r#"HELP "a" "two words""#, r#"HELP "b" """#, r#"HELP "c" """#],
    );
    // In a HELP text a quote needs no escape, so `\"` stays what it is.
    check(r#"# HELP a x\ny\\z\"w\"#, &[r#"HELP "a" "x\ny\\z\\\"w\\""#]);
    // Not metadata: no blank after the sign, another word, nothing after the word.
    check(
        "#\n#TYPE a gauge\n## TYPE a gauge\n# HELPa b\n# help a b\n# EOF\n# TYPE\n# HELP \n",
        &[],
    );
    check("# EOF\na 1\n", &[r#""a"{} 1.0"#]);
}

#[test]
fn values() {
    let check = |word: &str, expected: f64| {
        let body = format!("w {word}\n");
        let read = samples(body.as_bytes()).expect(word);
        assert_eq!(read[0].value.to_bits(), expected.to_bits(), "{word}");
    };
    let canonical_nan = f64::from_bits(0x7ff8_0000_0000_0001);
    for word in ["NaN", "nan", "NAN", "nAn"] {
        check(word, canonical_nan);
    }
    for word in ["Inf", "+Inf", "inf", "INFINITY", "+infinity"] {
        check(word, f64::INFINITY);
    }
    check("-Inf", f64::NEG_INFINITY);
    check(".5", 0.5);
    check("5.", 5.0);
    check("+5", 5.0);
    check("-0", -0.0);
    check("0000012", 12.0);
    check("1E3", 1000.0);
    check("1e+3", 1000.0);
    check("1e-400", 0.0);
    check("5e-324", 5e-324);
    check("1.7976931348623157e308", f64::MAX);
    check("18446744073709551615", 18_446_744_073_709_551_615.0);
    check("0.1000000000000000055511151231257827", 0.1);
}

#[test]
fn timestamps() {
    let check = |word: &str, expected: i64| {
        let body = format!("w 1 {word}\n");
        assert_eq!(samples(body.as_bytes()).expect(word)[0].timestamp_ms, Some(expected), "{word}");
    };
    check("1395066363000", 1_395_066_363_000);
    check("-3982045", -3_982_045);
    check("000", 0);
    check("9223372036854775807", i64::MAX);
    check("-9223372036854775808", i64::MIN);
}

#[test]
fn labels_are_found_by_what_they_mean() {
    let read = samples(br#"w{"a\"b"="1", c="x\\y" , d="plain"} 1"#).expect("a sample");
    let labels = read[0].labels;
    assert_eq!(labels.get("a\"b").as_deref(), Some("1"));
    assert_eq!(labels.get("c").as_deref(), Some(r"x\y"));
    assert!(matches!(labels.get("d"), Some(std::borrow::Cow::Borrowed("plain"))));
    assert_eq!(labels.get("e"), None);
    assert_eq!((labels.len(), labels.iter().len(), labels.is_empty()), (3, 3, false));
    assert_eq!(labels.raw(), r#""a\"b"="1", c="x\\y" , d="plain""#);
    assert!(samples(b"w 1").expect("a sample")[0].labels.is_empty());
    assert!(samples(br#"{"w"} 1"#).expect("a sample")[0].labels.is_empty());
}

#[test]
fn lines_are_numbered() {
    let read = samples(b"# HELP a x\n\na 1\n# note\na 2\n").expect("two samples");
    assert_eq!(read.iter().map(|sample| sample.line).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn a_missing_last_line_feed_is_told() {
    let check = |body: &[u8], expected: bool| {
        let exposition = Exposition::new(body).expect("a body within the limits, in UTF-8");
        assert_eq!(exposition.is_terminated(), expected, "{body:?}");
    };
    check(b"", true);
    check(b"a 1\n", true);
    check(b"a 1\nb 12", false);
}

#[test]
fn many_labels_and_a_long_value_are_ordinary() {
    let names: Vec<String> = (0..300).map(|n| format!("l{n}=\"v\"")).collect();
    let body = format!("w{{{}}} 1\n", names.join(","));
    assert_eq!(samples(body.as_bytes()).expect("300 labels")[0].labels.len(), 300);

    let body = format!("w{{a=\"{}\"}} 1\n", "x".repeat(70_000));
    assert_eq!(samples(body.as_bytes()).expect("a long value")[0].labels.raw().len(), 70_004);
}

#[test]
fn a_size_at_its_limit_is_within() {
    let limits =
        Limits { body_bytes: 21, line_bytes: 20, labels: 2, name_bytes: 2, value_bytes: 3 };
    let body = br#"ww{aa="bbb",c="d"} 1"#;
    let mut exposition = Exposition::with_limits(body, limits).expect("a body at its limit");
    assert!(matches!(exposition.next(), Some(Ok(Entry::Sample(_)))));
}

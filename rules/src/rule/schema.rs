//! That the JSON Schema of rule files, which editors read, has every key and word of the reader and no other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::Kind;
use super::{draft, read};
use crate::boundary::Boundary;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../docs/rules.schema.json")).unwrap()
}

/// The texts of a list.
fn words(list: &Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

fn keys(map: &Value) -> BTreeSet<&str> {
    map["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn keys_are_those_of_the_reader() {
    let schema = schema();
    let of = &schema["$defs"];
    let cases: [(&str, &Value, &[&str]); 5] = [
        ("file", &schema, &read::KEYS),
        ("input", &of["input"], &read::INPUT_KEYS),
        ("rule", &of["rule"], &draft::KEYS),
        ("over", &of["over"]["anyOf"][1], &draft::OVER_KEYS),
        ("withhold", &of["withhold"], &draft::WITHHOLD_KEYS),
    ];
    for (what, map, expected) in cases {
        assert_eq!(keys(map), expected.iter().copied().collect(), "{what}");
        assert_eq!(map["additionalProperties"], Value::Bool(false), "{what}");
    }
}

#[test]
fn words_are_those_of_the_reader() {
    let schema = schema();
    let of = &schema["$defs"];
    let functions = Kind::ALL.map(Kind::as_str).into_iter().collect();
    assert_eq!(words(&of["rule"]["properties"]["function"]["enum"]), functions);
    let boundaries = Boundary::ALL.map(Boundary::as_str).into_iter().collect();
    assert_eq!(words(&of["boundary"]["enum"]), boundaries);
    assert_eq!(of["over"]["anyOf"][0]["const"], draft::NAMED);
}

#[test]
fn a_key_of_some_functions_is_refused_with_the_others() {
    let schema = schema();
    let cases = schema["$defs"]["rule"]["allOf"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for case in cases {
        let functions = words(&case["if"]["properties"]["function"]["enum"]);
        let having = |has: &dyn Fn(Kind) -> bool| -> BTreeSet<&str> {
            Kind::ALL.into_iter().filter(|kind| has(*kind)).map(Kind::as_str).collect()
        };
        if let Some(refused) = case["else"]["properties"].as_object() {
            for (key, value) in refused {
                seen.insert(key.clone());
                let expected = match value {
                    Value::Bool(false) => having(&|kind| kind.has(key)),
                    _ => having(&Kind::takes_several),
                };
                assert_eq!(functions, expected, "{key}");
            }
        } else {
            assert_eq!(words(&case["then"]["required"]), BTreeSet::from(["over"]));
            assert_eq!(functions, having(&Kind::needs_windows));
        }
    }
    let is_of_some = |key: &&str| Kind::ALL.into_iter().any(|kind| !kind.has(key));
    let expected: BTreeSet<String> =
        draft::KEYS.into_iter().filter(is_of_some).chain(["of"]).map(str::to_owned).collect();
    assert_eq!(seen, expected);
}

//! JSON as YAML, for people: block style, texts quoted as JSON quotes them.

use serde_json::Value;

/// A value as YAML, with a line feed at its end.
pub(crate) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(pairs) if !pairs.is_empty() => {
            for (key, value) in pairs {
                // Keys of the document are plain words; any other is quoted.
                let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    && key.starts_with(|c: char| c.is_ascii_alphabetic());
                let key = if is_plain { key.clone() } else { Value::from(key.clone()).to_string() };
                out.push_str(&format!("{indent}{key}:"));
                below(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                write(item, depth + 1, &mut inner);
                out.push_str(&format!("{indent}- {}", inner.trim_start()));
            }
        }
        scalar => out.push_str(&format!("{indent}{scalar}\n")),
    }
}

fn below(value: &Value, depth: usize, out: &mut String) {
    let is_block = match value {
        Value::Object(pairs) => !pairs.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        write(value, depth + 1, out);
    } else {
        out.push_str(&format!(" {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_and_texts_are_quoted() {
        let value =
            json!({"a": 1.5, "b": [{"c": "x: y", "d": []}, true], "e f": {}, "g": {"h": null}});
        let expected =
            "a: 1.5\nb:\n  - c: \"x: y\"\n    d: []\n  - true\n\"e f\": {}\ng:\n  h: null\n";
        assert_eq!(yaml(&value), expected);
    }
}

//! What tells this exporter from every other, so that a reader that has two addresses of it notices.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A random name of a running exporter, new with each start: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceId(String);

impl InstanceId {
    /// A new one. The standard library seeds its hashers from the system's random numbers; nothing here is a secret.
    pub fn random() -> Self {
        Self(format!("{:016x}", RandomState::new().build_hasher().finish()))
    }

    /// The label value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_exporters_have_two_names() {
        let [one, other] = [InstanceId::random(), InstanceId::random()];
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 16);
        assert!(one.as_str().chars().all(|digit| digit.is_ascii_hexdigit()), "{one:?}");
    }
}

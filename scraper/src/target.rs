//! A target: what is polled, and under which name its rows stand.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// One exporter to poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name in rows and files: a node's name. Never taken from the target itself.
    pub name: String,
    /// What is asked.
    pub url: Url,
}

/// Why a target was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is no `NAME=URL` and no `URL`.
    #[error(
        "{text:?} is not a target: expected NAME=URL, as node-a=http://10.0.0.1:9405/metrics ({reason})"
    )]
    Malformed {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two targets of one name would mix their rows.
    #[error("target name {0:?} is given twice")]
    NameTwice(String),
    /// One exporter under two names would count its power twice.
    #[error("{0} is given twice")]
    UrlTwice(Url),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let malformed = |reason: String| TargetError::Malformed { text: text.to_owned(), reason };
        // An address may hold `=` in its query; a name comes before any `/`.
        let (name, address) = match text.split_once('=') {
            Some((name, address)) if !name.contains('/') => (Some(name), address),
            _ => (None, text),
        };
        let mut url = Url::parse(address).map_err(|error| malformed(error.to_string()))?;
        // It is never sent, so two that differ in it are one.
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(malformed(format!("scheme {:?} is neither http nor https", url.scheme())));
        }
        let host = url.host_str().unwrap_or_default();
        let name = name.map_or_else(
            || url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
            str::to_owned,
        );
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(malformed("the name is empty or holds control characters".to_owned()));
        }
        Ok(Self { name, url })
    }
}

impl Target {
    /// The address as it may be shown and stored: a password in it is masked.
    pub fn shown_url(&self) -> Url {
        let mut url = self.url.clone();
        if url.password().is_some() {
            // Fails only for an address without a host, which none of ours is.
            let _ = url.set_password(Some("***"));
        }
        url
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.shown_url())
    }
}

/// Refuses targets that would mix or double their rows.
pub fn check_distinct(targets: &[Target]) -> Result<(), TargetError> {
    for (place, target) in targets.iter().enumerate() {
        let others = &targets[..place];
        if others.iter().any(|other| other.name == target.name) {
            return Err(TargetError::NameTwice(target.name.clone()));
        }
        if others.iter().any(|other| other.url == target.url) {
            return Err(TargetError::UrlTwice(target.shown_url()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_text() {
        let cases = [
            ("node-a=http://10.0.0.1:9405/metrics", "node-a", "http://10.0.0.1:9405/metrics"),
            ("http://10.0.0.1:9405/metrics", "10.0.0.1:9405", "http://10.0.0.1:9405/metrics"),
            ("http://n1/metrics?a=b", "n1", "http://n1/metrics?a=b"),
            ("n=https://[::1]:9405/m", "n", "https://[::1]:9405/m"),
        ];
        for (text, name, url) in cases {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.name.as_str(), target.url.as_str()), (name, url), "{text}");
        }
        for text in ["", "node-a", "node-a=", "=http://x/", "n=ftp://x/", "n=10.0.0.1:9405"] {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_target_is_polled_once() {
        let targets = |texts: [&str; 2]| texts.map(|text| text.parse::<Target>().unwrap());
        assert!(check_distinct(&targets(["a=http://x:1/", "b=http://x:2/"])).is_ok());
        let same_name = check_distinct(&targets(["a=http://x:1/", "a=http://x:2/"]));
        assert_eq!(same_name.unwrap_err().to_string(), "target name \"a\" is given twice");
        let same_url = check_distinct(&targets(["a=http://x:1/", "b=http://x:1/"]));
        assert_eq!(same_url.unwrap_err().to_string(), "http://x:1/ is given twice");
    }
}

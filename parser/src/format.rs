//! The two formats we write, and which of them a client would rather have.
//!
//! Reads an `Accept` header (RFC 9110, section 12.5.1). Never fails: what it does not understand
//! asks for nothing, and who asks for nothing we have gets the text format.

/// A format of exposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Value of the `Content-Type` header.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format for an `Accept` header.
    ///
    /// OpenMetrics only for a client that names it and ranks it at least as high as text;
    /// everybody else, with `*/*` or without the header, gets text.
    ///
    /// ```
    /// use wattscribe_parser::Format;
    ///
    /// assert_eq!(Format::negotiate(Some("*/*")), Format::Text);
    /// assert_eq!(Format::negotiate(Some("application/openmetrics-text")), Format::OpenMetrics);
    /// ```
    #[must_use]
    pub fn negotiate(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or("*/*");
        let text = Self::Text.preference(accept);
        let open_metrics = Self::OpenMetrics.preference(accept);
        let is_named = open_metrics.specificity >= Specificity::Type;
        if is_named && open_metrics.quality > 0.0 && open_metrics.quality >= text.quality {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// What the header's most specific range for this format says of it.
    fn preference(self, accept: &str) -> Preference {
        accept.split(',').filter_map(|range| self.judge(range)).fold(
            Preference { specificity: Specificity::Unmentioned, quality: 0.0 },
            |best, next| {
                let rank = |it: &Preference| (it.specificity, it.quality);
                if rank(&next) > rank(&best) { next } else { best }
            },
        )
    }

    /// What one range of the header says of this format, if it is about it.
    fn judge(self, range: &str) -> Option<Preference> {
        let (family, subtype, version) = match self {
            Self::Text => ("text", "plain", "0.0.4"),
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
        };
        let mut parts = range.split(';').map(str::trim);
        let (range_family, range_subtype) = parts.next()?.split_once('/')?;
        let mut specificity = match (range_family, range_subtype) {
            ("*", "*") => Specificity::Any,
            (f, "*") if f.eq_ignore_ascii_case(family) => Specificity::Family,
            (f, s) if f.eq_ignore_ascii_case(family) && s.eq_ignore_ascii_case(subtype) => {
                Specificity::Type
            }
            _ => return None,
        };
        let mut quality = 1.0;
        for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => quality = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?,
                "version" if value == version => specificity = Specificity::Version,
                "version" => return None,
                // Escaping and charset make no difference to names in ASCII and text in UTF-8.
                _ => {}
            }
        }
        Some(Preference { specificity, quality })
    }
}

/// How closely a range of the header describes a format; the closest one counts.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Specificity {
    Unmentioned,
    Any,
    Family,
    Type,
    Version,
}

#[derive(Clone, Copy)]
struct Preference {
    specificity: Specificity,
    quality: f32,
}

#[cfg(test)]
mod tests {
    use super::Format::{self, OpenMetrics, Text};

    #[test]
    fn formats_are_negotiated() {
        let check = |accept: &str, expected: Format| {
            assert_eq!(Format::negotiate(Some(accept)), expected, "{accept}");
        };
        // Prometheus 3, default and with the text format put first.
        check(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,\
             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OpenMetrics,
        );
        check(
            "text/plain;version=0.0.4;q=0.6,\
             application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.2",
            Text,
        );
        // Prometheus 2.42.
        check(
            "application/openmetrics-text;version=1.0.0,\
             application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,\
             */*;q=0.1",
            OpenMetrics,
        );
        // vmagent, curl, a browser.
        check("text/plain;version=0.0.4;q=1,*/*;q=0.1", Text);
        check("*/*", Text);
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Text);
        // Ranks, wildcards, refusals.
        check("application/openmetrics-text, text/plain", OpenMetrics);
        check("application/openmetrics-text;q=0.4, text/plain;q=0.5", Text);
        check("application/openmetrics-text;q=0, text/plain;q=0", Text);
        check("application/openmetrics-text;q=0.5, */*", Text);
        check("application/*, text/plain;q=0.5", Text);
        check(
            "text/plain;q=0.9, text/plain;version=0.0.4;q=0.1, \
             APPLICATION/OpenMetrics-Text ; Q=0.5",
            OpenMetrics,
        );
        // Versions we do not write, and nonsense.
        check("application/openmetrics-text;version=2.0.0", Text);
        check("application/openmetrics-text;version=\"1.0.0\"", OpenMetrics);
        check("application/openmetrics-text;q=high", Text);
        check("", Text);
        check(",;=/,", Text);
        assert_eq!(Format::negotiate(None), Text);
    }
}

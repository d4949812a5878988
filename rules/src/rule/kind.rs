//! The functions of a rule file: their words, and which keys go with each.

use super::Require;

/// A function as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mean,
    Sum,
    Max,
    Min,
    Residual,
    Ratio,
    Quantile,
    Integrate,
    Increase,
    Check,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Mean,
        Kind::Sum,
        Kind::Max,
        Kind::Min,
        Kind::Residual,
        Kind::Ratio,
        Kind::Quantile,
        Kind::Integrate,
        Kind::Increase,
        Kind::Check,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Kind::Mean => "mean",
            Kind::Sum => "sum",
            Kind::Max => "max",
            Kind::Min => "min",
            Kind::Residual => "residual",
            Kind::Ratio => "ratio",
            Kind::Quantile => "quantile",
            Kind::Integrate => "integrate",
            Kind::Increase => "increase",
            Kind::Check => "check",
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether the key, of those that belong to some functions only, goes with this one.
    pub(super) fn has(self, key: &str) -> bool {
        match key {
            "less" => self == Kind::Residual,
            "to" => self == Kind::Ratio,
            "against" => self == Kind::Check,
            "quantile" => self == Kind::Quantile,
            "over" => self.needs_windows() || matches!(self, Kind::Max | Kind::Min),
            _ => true,
        }
    }

    /// Whether it says nothing of an instant.
    pub(super) const fn needs_windows(self) -> bool {
        matches!(self, Kind::Quantile | Kind::Integrate | Kind::Increase | Kind::Check)
    }

    /// Whether `of` may be a list.
    pub(super) const fn takes_several(self) -> bool {
        matches!(self, Kind::Sum | Kind::Max | Kind::Min)
    }

    /// Whether members are added, so that what is counted twice is twice in the result.
    pub(super) const fn adds(self) -> bool {
        matches!(
            self,
            Kind::Sum
                | Kind::Residual
                | Kind::Ratio
                | Kind::Integrate
                | Kind::Increase
                | Kind::Check
        )
    }

    /// Which members must report when the file does not say.
    pub(super) const fn require(self, has_windows: bool) -> Require {
        match self {
            Kind::Mean => Require::Any,
            Kind::Max | Kind::Min if !has_windows => Require::Any,
            _ => Require::All,
        }
    }

    /// Whether a file may say which members must report. Where every input is needed or there is one member, it says
    /// nothing.
    pub(super) const fn has_require(self, has_windows: bool) -> bool {
        match self {
            Kind::Mean | Kind::Sum | Kind::Integrate | Kind::Increase => true,
            Kind::Max | Kind::Min => !has_windows,
            Kind::Residual | Kind::Ratio | Kind::Quantile | Kind::Check => false,
        }
    }
}

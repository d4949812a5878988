//! A sum of doubles whose rounding error does not grow with the number of terms.

/// A running sum that carries what rounding loses (Neumaier's variant of Kahan summation).
///
/// A day of readings ten times a second is a million terms; a plain sum would lose up to six of its sixteen digits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    pub(crate) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        // The smaller of the two loses its low bits, so it is the one to recover them from.
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
    }

    pub(crate) fn total(self) -> f64 {
        self.sum + self.lost
    }
}

impl FromIterator<f64> for Compensated {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Compensated {
        let mut sum = Compensated::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let cases: &[(&[f64], f64)] = &[
            (&[], 0.0),
            (&[1.0, 1e100, 1.0, -1e100], 2.0),
            (&[1e16, 1.0, 1.0, 1.0, 1.0], 1e16 + 4.0),
        ];
        for (terms, expected) in cases {
            let sum: Compensated = terms.iter().copied().collect();
            assert_eq!(sum.total(), *expected, "{terms:?}");
        }
        let tenths: Compensated = std::iter::repeat_n(0.1, 1_000_000).collect();
        assert_eq!(tenths.total(), 100_000.0);
    }
}

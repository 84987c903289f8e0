//! Numbers on the command line, with their bounds.

use std::str::FromStr;

/// Reads a finite number that is `good`; the error names what was expected.
///
/// # Errors
/// What was expected.
pub fn number<T: FromStr + Copy + Into<f64>>(
    text: &str,
    good: impl Fn(f64) -> bool,
    expected: &str,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|&x: &T| x.into().is_finite() && good(x.into()));
    number.ok_or_else(|| format!("expected {expected}"))
}

/// Reads a finite number above 0.
///
/// # Errors
/// What was expected.
pub fn positive<T: FromStr + Copy + Into<f64>>(text: &str) -> Result<T, String> {
    number(text, |x| x > 0.0, "a number above 0")
}

/// Reads a finite number of at least 0.
///
/// # Errors
/// What was expected.
pub fn not_negative<T: FromStr + Copy + Into<f64>>(text: &str) -> Result<T, String> {
    number(text, |x| x >= 0.0, "a number of at least 0")
}

/// Reads how many values a row has.
///
/// # Errors
/// What was expected.
pub fn at_least_1(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// Reads a whole number of at least 1, as the type has it.
///
/// # Errors
/// What was expected.
pub fn nonzero<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match text.parse::<u128>() {
        Ok(1..) => "expected a smaller number".to_owned(),
        _ => "expected a whole number of at least 1".to_owned(),
    })
}

/// Reads a number of at least 0 and below 1.
///
/// # Errors
/// What was expected.
pub fn fraction(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..1.0).contains(&x), "a number of at least 0 and below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_and_rates_are_checked() {
        assert_eq!(fraction("0"), Ok(0.0));
        assert_eq!(fraction("0.999"), Ok(0.999));
        for text in ["1", "-0.1", "nan", "inf", "a"] {
            assert!(fraction(text).is_err(), "{text}");
        }
        assert!(positive::<f32>("0").is_err() && positive::<f32>("inf").is_err() && positive::<f64>("1e-3").is_ok());
        assert!(
            at_least_1("1000") == Ok(1000) && ["0", "-8", "", "1e2"].into_iter().all(|text| at_least_1(text).is_err())
        );
        let refused = |text| nonzero::<std::num::NonZeroU16>(text).unwrap_err();
        assert_eq!(["0", "-1", "x"].map(refused), ["expected a whole number of at least 1"; 3]);
        assert_eq!(refused("65536"), "expected a smaller number");
        assert!(not_negative::<f32>("-1").is_err() && not_negative::<f64>("0").is_ok());
    }
}

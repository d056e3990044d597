//! Whole numbers of a range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Numbers of a type, with the largest of them.
pub(super) trait Whole: FromStr + PartialOrd + Copy + Display + Send + Sync + 'static {
    const MAX: Self;
}

macro_rules! whole {
    ($($kind:ident)*) => {
        $(impl Whole for $kind { const MAX: Self = <$kind>::MAX; })*
    };
}

whole!(u8 u16 u32 u64 usize);

/// Reads a number that is in `range`. What is wrong with another one is said in words.
pub(super) fn whole<T: Whole>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let found = text.parse().ok().filter(|number| range.contains(number));
        found.ok_or_else(|| format!("it must be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Reads a number of `least` or more.
pub(super) fn at_least<T: Whole>(
    least: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let found = text.parse().ok().filter(|number| *number >= least);
        // Few know where the numbers of a machine end.
        let is_large = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let most = if is_large { format!(" and {} at most", T::MAX) } else { String::new() };
        found.ok_or_else(|| format!("it must be a whole number of {least} or more{most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_in_words() {
        let crf = whole(0u8..=63);
        assert_eq!([crf("0"), crf("63")], [Ok(0), Ok(63)]);
        for wrong in ["64", "99", "300", "-1", "", "12.5", "many"] {
            assert_eq!(crf(wrong), Err("it must be a whole number from 0 to 63".into()), "{wrong}");
        }
        let frames = at_least(1u32);
        assert_eq!(frames("4000000000"), Ok(4_000_000_000));
        assert_eq!(frames("some"), Err("it must be a whole number of 1 or more".into()));
        let words = "it must be a whole number of 1 or more and 4294967295 at most";
        assert_eq!(frames("5000000000"), Err(words.into()));
    }
}

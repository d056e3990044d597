//! The order in which people number files: 1, 2, 10.

use std::cmp::Ordering;
use std::ffi::OsStr;

/// Compares names with runs of digits by their value, and letters without regard to case. Names that are the same by
/// that (1, 01, a, A) are in the order of their bytes, so that the order is total.
pub(crate) fn natural(a: &OsStr, b: &OsStr) -> Ordering {
    let (a, b) = (a.as_encoded_bytes(), b.as_encoded_bytes());
    let (mut x, mut y) = (a, b);
    loop {
        let order = match (x.first(), y.first()) {
            (Some(p), Some(q)) if p.is_ascii_digit() && q.is_ascii_digit() => {
                let (m, n) = (number(&mut x), number(&mut y));
                // Without zeros in front, the longer number is the larger one.
                m.len().cmp(&n.len()).then_with(|| m.cmp(n))
            }
            (Some(p), Some(q)) => {
                (x, y) = (&x[1..], &y[1..]);
                p.to_ascii_lowercase().cmp(&q.to_ascii_lowercase())
            }
            (None, None) => return a.cmp(b),
            (rest, other) => return rest.is_some().cmp(&other.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Takes the digits in front, and gives them back without leading zeros.
fn number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|c| **c == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let mut names = names.to_vec();
        names.sort_by(|a, b| natural(a.as_ref(), b.as_ref()));
        names
    }

    #[test]
    fn files_are_in_the_order_of_their_numbers() {
        let names = ["10.png", "2.png", "1.png", "01.png", "001.png", "0.png"];
        assert_eq!(sorted(&names), ["0.png", "001.png", "01.png", "1.png", "2.png", "10.png"]);
        assert_eq!(sorted(&["b1", "A10", "a2", "B", "a"]), ["a", "a2", "A10", "B", "b1"]);
        assert_eq!(sorted(&["f2a10", "f10a1", "f2a9"]), ["f2a9", "f2a10", "f10a1"]);
        assert_eq!(sorted(&["a.10.exr", "a.9.exr", "a.exr"]), ["a.9.exr", "a.10.exr", "a.exr"]);
        // More digits than any integer has.
        let (large, larger) = (format!("9{}", "0".repeat(300)), format!("1{}", "0".repeat(301)));
        assert_eq!(natural(large.as_ref(), larger.as_ref()), Ordering::Less);
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            a in "[a-bA-B0-2./é]{0,6}", b in "[a-bA-B0-2./é]{0,6}", c in "[a-bA-B0-2./é]{0,6}",
        ) {
            let order = |x: &str, y: &str| natural(x.as_ref(), y.as_ref());
            prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
            prop_assert_eq!(order(&a, &b) == Ordering::Equal, a == b);
            if order(&a, &b) != Ordering::Greater && order(&b, &c) != Ordering::Greater {
                prop_assert_ne!(order(&a, &c), Ordering::Greater);
            }
        }

        #[test]
        fn numbers_count_by_their_value(
            stem in "[a-z]{0,3}", tail in "[a-z.]{0,3}", m: u64, n: u64, zeros in 0usize..4,
        ) {
            let name = |n: u64, zeros: usize| format!("{stem}{}{n}{tail}", "0".repeat(zeros));
            let order = natural(name(m, zeros).as_ref(), name(n, 0).as_ref());
            prop_assert!(m == n || order == m.cmp(&n));
        }
    }
}

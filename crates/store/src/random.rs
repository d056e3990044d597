//! Unique names.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// 32 hexadecimal digits. The standard library seeds its hash maps with 128 bits from the system, once a thread; process
/// and counter keep names of one thread and of a forked process apart. Uniqueness is enough: nothing here is secret.
pub(crate) fn name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let state = RandomState::new();
    let half = |side: u8| state.hash_one((side, std::process::id(), count));
    format!("{:016x}{:016x}", half(0), half(1))
}

/// Whether a name is of that kind.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_between_calls_and_threads() {
        let names = || (0..1000).map(|_| super::name()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(names)).collect();
        let all: BTreeSet<String> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        assert_eq!(all.len(), 4000);
        assert!(all.iter().all(|name| name.len() == 32));
    }
}

//! Licences of what others made and the program holds.

/// What is inside the program and not its own, and the notice that goes with every copy.
pub fn notices() -> [(&'static str, &'static str); 2] {
    [
        ("realesr-animevideov3, the network of --model anime", remaster_anime::NOTICE),
        ("letters on sheets and previews", remaster_metrics::LETTERS_NOTICE),
    ]
}

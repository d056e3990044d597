//! What is not finite stays visible in the ops on tokens: every CPU path gives NaN or infinity wherever the naive loops do.

use remaster_testkit::token_cases::{TokenCase, run_tokens, same_token_holes};

use crate::not_finite::spoiled;

#[test]
fn one_bad_value_in_any_operand_spoils_what_it_spoils_in_the_naive_loops() {
    let (spoiled, paths) = spoiled(
        (600..632).flat_map(TokenCase::poisoned),
        |ops, case| run_tokens(ops, case, false).unwrap(),
        |case, ours, theirs| same_token_holes(case, ours, theirs),
    );
    assert!(spoiled > 50 * paths, "only {spoiled} cases had a bad value in their result");
}

//! Keeps credentials out of messages.

use crate::StoreSettings;

/// The longest text of a server that a message repeats.
const LONGEST: usize = 300;

/// Values that no message may contain.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Of all variables, those whose name says that they are secret. Names of files are not.
    pub(crate) fn of(settings: &StoreSettings) -> Self {
        let secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            let says = ["KEY", "SECRET", "TOKEN", "PASSWORD", "SAS", "SIGNATURE", "CREDENTIAL", "ACCOUNT"];
            says.iter().any(|word| name.contains(word))
                && !["_FILE", "_PATH", "APPLICATION_CREDENTIALS", "ACCOUNT_NAME", "_URI"]
                    .iter()
                    .any(|end| name.ends_with(end))
        };
        let long = |value: &str| value.len() >= 6;
        let mut values: Vec<String> = settings
            .variables
            .iter()
            .filter(|(name, value)| secret(name) && long(value))
            .map(|(_, value)| value.clone())
            .collect();
        // A secret inside a longer one must not leave the rest of it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Secrets(values)
    }

    /// A text of others without secrets, on one short line.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), "***");
        }
        let mut line: String =
            text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if text.chars().nth(LONGEST).is_some() {
            line.push_str("...");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_long_answers_cut() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = StoreSettings::with_variables([
            pair("AWS_SECRET_ACCESS_KEY", "/swordfish"),
            pair("AWS_SESSION_TOKEN", "/swordfish-long"),
            pair("AWS_REGION", "eu-central-1"),
        ]);
        let secrets = Secrets::of(&settings);
        assert_eq!(secrets.hide("eu-central-1 /swordfish-long\n/swordfish"), "eu-central-1 *** ***");
        assert_eq!(secrets.hide(&"x".repeat(1000)).len(), LONGEST + 3);
    }
}

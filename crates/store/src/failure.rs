//! One failed try: what it means and whether another one may help.

use std::error::Error as StdError;
use std::io::ErrorKind;

use object_store::Error;

use crate::StoreError;

/// Why one try failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store says so.
    Store(Error),
    /// No answer in time.
    Slow,
    /// Fewer bytes came than were announced.
    Short,
    /// Already an error for the caller: no other try helps.
    Said(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Said(error)
    }
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Missing,
    Denied,
    Full,
    Unable,
    MayPass,
}

/// Sorts an error. What is not known may pass: a needless try costs seconds, a missing one the unit.
pub(crate) fn kind(error: &Error) -> Kind {
    match error {
        Error::NotFound { .. } => Kind::Missing,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Denied,
        Error::NotImplemented { .. }
        | Error::NotSupported { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => Kind::Unable,
        _ => of_the_system(error),
    }
}

/// The error of the operating system below an error of a folder.
fn of_the_system(error: &Error) -> Kind {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Kind::Full,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Kind::Denied,
                // The last two are said of links, pipes and devices, and of folders with too many names.
                ErrorKind::NotADirectory
                | ErrorKind::IsADirectory
                | ErrorKind::Unsupported
                | ErrorKind::InvalidInput
                | ErrorKind::InvalidData => Kind::Unable,
                _ => Kind::MayPass,
            };
        }
        next = error.source();
    }
    Kind::MayPass
}

/// The innermost reason: what is around it names the object once more.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::Generic { source, .. }
        | Error::NotFound { source, .. }
        | Error::NotSupported { source }
        | Error::PermissionDenied { source, .. }
        | Error::Unauthenticated { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_found_below_other_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        let generic = |kind: ErrorKind| Error::Generic { store: "s", source: Box::new(Outer(kind.into())) };
        assert_eq!(kind(&generic(ErrorKind::StorageFull)), Kind::Full);
        assert_eq!(kind(&generic(ErrorKind::ReadOnlyFilesystem)), Kind::Denied);
        assert_eq!(kind(&generic(ErrorKind::ConnectionReset)), Kind::MayPass);
        assert_eq!(kind(&Error::Generic { store: "s", source: "odd".into() }), Kind::MayPass);
    }
}

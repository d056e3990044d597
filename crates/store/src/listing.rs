//! Listings that need no room.

use std::vec;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::ObjectMeta;

use crate::failure::Failure;
use crate::{Key, Store, StoreError};

/// Objects in memory at a time: what S3 sends at most in one answer.
const PAGE: usize = 1000;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: Key,
    /// Its size.
    pub bytes: u64,
}

/// The objects below a folder of a store, page by page. An error ends it; what came before may be incomplete.
pub struct Listing {
    store: Store,
    below: String,
    stream: Option<BoxStream<'static, object_store::Result<ObjectMeta>>>,
    page: vec::IntoIter<Listed>,
}

impl Listing {
    pub(crate) fn new(store: Store, below: &str) -> Result<Self, StoreError> {
        let path = match below {
            "" if store.core().place.prefix().is_empty() => None,
            "" => Some(store.core().place.prefix().into()),
            below => Some(store.core().path(&Key::new(below)?)),
        };
        // A folder lists in other threads only if it is asked inside the runtime.
        let stream = Some(store.run(|core| async move { core.objects.list(path.as_ref()) })?);
        Ok(Listing { store, below: below.to_owned(), stream, page: Vec::new().into_iter() })
    }

    /// The next objects; none at the end.
    fn next_page(&mut self) -> Result<(), StoreError> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        let (stream, page, pulled) = self.store.run(|core| async move {
            let mut page = Vec::with_capacity(PAGE);
            let pulled = core
                .limited(async {
                    while page.len() < PAGE
                        && let Some(about) = stream.next().await
                    {
                        page.push(about?);
                    }
                    Ok::<_, Failure>(())
                })
                .await;
            (stream, page, pulled)
        })?;
        pulled.map_err(|failure| self.store.core().say("list", self.name(), failure, 1))?;
        if page.len() == PAGE {
            self.stream = Some(stream);
        }
        let prefix = self.store.core().place.prefix();
        let ours = |about: ObjectMeta| {
            let name = about.location.as_ref();
            let name = match prefix {
                "" => name,
                prefix => name.strip_prefix(prefix)?.strip_prefix('/')?,
            };
            Some(Listed { key: Key::new(name).ok()?, bytes: about.size })
        };
        self.page = page.into_iter().filter_map(ours).collect::<Vec<_>>().into_iter();
        Ok(())
    }

    fn name(&self) -> &str {
        if self.below.is_empty() { "all objects" } else { &self.below }
    }
}

impl Iterator for Listing {
    type Item = Result<Listed, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(listed) = self.page.next() {
                return Some(Ok(listed));
            }
            self.stream.as_ref()?;
            if let Err(error) = self.next_page() {
                return Some(Err(error));
            }
        }
    }
}

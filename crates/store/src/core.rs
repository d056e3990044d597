//! The calls themselves: one store, its limits, and tries.

use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, Kind, kind, reason};
use crate::place::Place;
use crate::secrets::Secrets;
use crate::{Created, Key, Limits, StoreError};

/// Small objects that are asked for at a time.
const AT_ONCE: usize = 32;

/// Everything a call needs. It is shared with the work that runs in the other thread.
pub(crate) struct Core {
    pub(crate) place: Place,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) limits: Limits,
    pub(crate) secrets: Secrets,
}

impl Core {
    /// Where a key is inside the store.
    pub(crate) fn path(&self, key: &Key) -> Path {
        match self.place.prefix() {
            "" => Path::from(key.as_str()),
            prefix => Path::from(format!("{prefix}/{key}")),
        }
    }

    /// One try, with its time limit.
    pub(crate) async fn limited<T, E: Into<Failure>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        match timeout(self.limits.call, work).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(Failure::Slow),
        }
    }

    /// Tries until it succeeds, until no further try can help, or until it was tried often enough.
    pub(crate) async fn tried<T, F>(
        &self,
        what: &'static str,
        key: &Key,
        work: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut tries = 1;
        loop {
            match self.limited(work()).await {
                Ok(value) => return Ok(value),
                Err(failure) if tries < self.limits.tries && may_pass(&failure) => {
                    sleep(self.limits.pause(tries)).await;
                    tries += 1;
                }
                Err(failure) => return Err(self.say(what, key.as_str(), failure, tries)),
            }
        }
    }

    /// As [`Core::tried`], in the thread of the caller. What a try waits for has time limits of its own.
    pub(crate) fn repeated<T>(
        &self,
        what: &'static str,
        key: &Key,
        mut work: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            match work() {
                Ok(value) => return Ok(value),
                Err(failure) if tries < self.limits.tries && may_pass(&failure) => {
                    std::thread::sleep(self.limits.pause(tries));
                    tries += 1;
                }
                Err(failure) => return Err(self.say(what, key.as_str(), failure, tries)),
            }
        }
    }

    /// A failure as an error for the caller.
    pub(crate) fn say(&self, what: &'static str, key: &str, failure: Failure, tries: u32) -> StoreError {
        let (place, key) = (self.place.to_string(), key.to_owned());
        let error = match failure {
            Failure::Said(error) => return error,
            Failure::Slow => {
                let seconds = self.limits.call.as_secs();
                return StoreError::Slow { place, key, what, seconds, tries };
            }
            Failure::Short => {
                let reason = "the answer is shorter than it said".to_owned();
                return StoreError::Failed { place, key, what, reason, tries };
            }
            Failure::Store(error) => error,
        };
        let reason = self.secrets.hide(&reason(&error));
        match kind(&error) {
            // An object that is written need not be there, but its bucket must.
            Kind::Missing if ["write", "create"].contains(&what) || reason.contains("NoSuchBucket") => {
                match self.place.bucket() {
                    Some(bucket) => StoreError::NoBucket { bucket: bucket.to_owned() },
                    None => StoreError::Missing { place, key },
                }
            }
            Kind::Missing => StoreError::Missing { place, key },
            Kind::Denied => StoreError::Denied { place, key, what, reason },
            Kind::Full => StoreError::Full { place, key, what },
            Kind::Unable => StoreError::Unable { place, key, what, reason },
            Kind::MayPass => StoreError::Failed { place, key, what, reason, tries },
        }
    }

    /// Writes an object. Another try writes the same bytes to the same key.
    pub(crate) async fn put(&self, key: &Key, bytes: PutPayload) -> Result<(), StoreError> {
        self.tried("write", key, async || {
            self.objects.put_opts(&self.path(key), bytes.clone(), PutOptions::default()).await?;
            Ok(())
        })
        .await
    }

    /// Writes an object if there is none.
    pub(crate) async fn create(&self, key: &Key, bytes: PutPayload) -> Result<Created, StoreError> {
        self.tried("create", key, async || {
            match self.objects.put_opts(&self.path(key), bytes.clone(), PutMode::Create.into()).await {
                Ok(_) => Ok(Created::New),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Created::AlreadyThere),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// An object, if it has at most so many bytes.
    pub(crate) async fn get(&self, key: &Key, most: u64) -> Result<Vec<u8>, StoreError> {
        self.tried("read", key, async || {
            let result = self.objects.get_opts(&self.path(key), GetOptions::default()).await?;
            if result.meta.size > most {
                return Err(self.too_large(key, most));
            }
            self.collect(key, result, most).await
        })
        .await
    }

    /// Bytes `[start, end)` of an object.
    pub(crate) async fn get_range(&self, key: &Key, start: u64, end: u64) -> Result<Vec<u8>, StoreError> {
        self.tried("read a part of", key, async || {
            let options = GetOptions { range: Some(GetRange::Bounded(start..end)), ..GetOptions::default() };
            let result = self.objects.get_opts(&self.path(key), options).await?;
            self.collect(key, result, end.saturating_sub(start)).await
        })
        .await
    }

    /// The bytes of an answer. A server may send more or fewer than it announced.
    async fn collect(&self, key: &Key, result: GetResult, most: u64) -> Result<Vec<u8>, Failure> {
        let expected = result.range.end.saturating_sub(result.range.start);
        let mut bytes = Vec::new();
        let mut stream = result.into_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            if (bytes.len() + chunk.len()) as u64 > most {
                return Err(self.too_large(key, most));
            }
            bytes.extend_from_slice(&chunk);
        }
        if bytes.len() as u64 == expected { Ok(bytes) } else { Err(Failure::Short) }
    }

    fn too_large(&self, key: &Key, most: u64) -> Failure {
        StoreError::TooLarge { place: self.place.to_string(), key: key.to_string(), most }.into()
    }

    /// The size of an object.
    pub(crate) async fn size(&self, key: &Key) -> Result<u64, StoreError> {
        self.tried("look at", key, async || Ok(self.objects.head(&self.path(key)).await?.size)).await
    }

    /// Removes an object. One that is not there is removed already.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.tried("remove", key, async || match self.objects.delete(&self.path(key)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        })
        .await
    }

    /// The same for many keys, some at a time. Results come in any order; the first error ends it.
    pub(crate) async fn each<T, F>(
        self: Arc<Self>,
        keys: Vec<Key>,
        work: impl Fn(Arc<Self>, Key) -> F,
    ) -> Result<Vec<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let mut results = Vec::with_capacity(keys.len());
        let mut running = JoinSet::new();
        let mut keys = keys.into_iter();
        loop {
            while running.len() < AT_ONCE
                && let Some(key) = keys.next()
            {
                running.spawn(work(Arc::clone(&self), key));
            }
            match running.join_next().await {
                None => return Ok(results),
                Some(Ok(result)) => results.push(result?),
                Some(Err(_)) => return Err(StoreError::Gone { place: self.place.to_string() }),
            }
        }
    }
}

/// Whether another try may help.
fn may_pass(failure: &Failure) -> bool {
    match failure {
        Failure::Store(error) => kind(error) == Kind::MayPass,
        Failure::Slow | Failure::Short => true,
        Failure::Said(_) => false,
    }
}

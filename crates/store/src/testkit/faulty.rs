//! Objects behind a connection that fails when told to.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::faults::{Fault, Faults};

/// Other objects, seen through faults.
#[derive(Debug)]
pub struct Faulty {
    objects: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
}

impl Faulty {
    /// Every put, part, get, list and delete of `objects` asks `faults`.
    pub fn new(objects: Arc<dyn ObjectStore>, faults: Arc<Faults>) -> Self {
        Faulty { objects, faults }
    }
}

fn failed() -> Error {
    Error::Generic { store: "faulty", source: "the test says so".into() }
}

/// The first half of some bytes.
fn half(payload: &PutPayload) -> PutPayload {
    let bytes: Vec<u8> = payload.iter().flat_map(|part| part.iter().copied()).collect();
    PutPayload::from(bytes[..bytes.len() / 2].to_vec())
}

/// A part that is sent, with an error as its answer.
fn lost(sent: UploadPart) -> UploadPart {
    async move { sent.await.and(Err(failed())) }.boxed()
}

/// The first half of a stream, then what stands behind it.
async fn cut<T: Send + 'static>(
    whole: BoxStream<'static, Result<T>>,
    end: Option<Error>,
) -> BoxStream<'static, Result<T>> {
    let mut items: Vec<Result<T>> = whole.collect().await;
    items.truncate(items.len() / 2);
    items.extend(end.map(Err));
    stream::iter(items).boxed()
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match self.faults.next() {
            None => self.objects.put_opts(path, payload, options).await,
            Some(Fault::Refused) => Err(failed()),
            Some(Fault::AnswerLost) => {
                self.objects.put_opts(path, payload, options).await?;
                Err(failed())
            }
            Some(Fault::Late) => {
                let done = self.objects.put_opts(path, payload, options).await;
                tokio::time::sleep(self.faults.lateness()).await;
                done
            }
            Some(Fault::Cut) => {
                self.objects.put_opts(path, half(&payload), options).await?;
                Err(failed())
            }
            Some(Fault::CutSilently) => self.objects.put_opts(path, half(&payload), options).await,
            Some(Fault::Twice) => {
                self.objects.put_opts(path, payload.clone(), options.clone()).await?;
                self.objects.put_opts(path, payload, options).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if let Some(Fault::Refused | Fault::AnswerLost | Fault::Cut) = self.faults.next() {
            return Err(failed());
        }
        let upload = self.objects.put_multipart_opts(path, options).await?;
        Ok(Box::new(FaultyUpload { upload, faults: Arc::clone(&self.faults) }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.faults.next();
        match fault {
            Some(Fault::Refused) => return Err(failed()),
            Some(Fault::Late) => tokio::time::sleep(self.faults.lateness()).await,
            Some(Fault::Twice) => drop(self.objects.get_opts(path, options.clone()).await?),
            _ => {}
        }
        let whole = self.objects.get_opts(path, options).await?;
        let (meta, range) = (whole.meta.clone(), whole.range.clone());
        let (attributes, extensions) = (whole.attributes.clone(), whole.extensions.clone());
        let bytes = whole.bytes().await?;
        let chunks = match fault {
            Some(Fault::AnswerLost) => vec![Ok(bytes), Err(failed())],
            Some(Fault::Cut) => vec![Ok(bytes.slice(..bytes.len() / 2)), Err(failed())],
            Some(Fault::CutSilently) => vec![Ok(bytes.slice(..bytes.len() / 2))],
            _ => vec![Ok(bytes)],
        };
        let payload = GetResultPayload::Stream(stream::iter(chunks).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let fault = self.faults.next();
        match fault {
            Some(Fault::Refused | Fault::Cut) => stream::iter([Err(failed())]).boxed(),
            Some(Fault::AnswerLost) => {
                self.objects.delete_stream(paths).chain(stream::iter([Err(failed())])).boxed()
            }
            _ => self.objects.delete_stream(paths),
        }
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let whole = self.objects.list(below);
        let late = self.faults.lateness();
        match self.faults.next() {
            None => whole,
            Some(Fault::Refused) => stream::iter([Err(failed())]).boxed(),
            Some(Fault::AnswerLost) => whole.chain(stream::iter([Err(failed())])).boxed(),
            Some(Fault::Late) => {
                async move { tokio::time::sleep(late).await }.map(move |()| whole).flatten_stream().boxed()
            }
            Some(Fault::Cut) => cut(whole, Some(failed())).flatten_stream().boxed(),
            Some(Fault::CutSilently) => cut(whole, None).flatten_stream().boxed(),
            Some(Fault::Twice) => whole.chain(self.objects.list(below)).boxed(),
        }
    }

    async fn list_with_delimiter(&self, below: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(below).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.objects)
    }
}

#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let late = self.faults.lateness();
        match self.faults.next() {
            // A part has a number: a second one would replace the first.
            None | Some(Fault::Twice) => self.upload.put_part(data),
            Some(Fault::Refused) => async { Err(failed()) }.boxed(),
            Some(Fault::AnswerLost) => lost(self.upload.put_part(data)),
            Some(Fault::Late) => {
                let sent = self.upload.put_part(data);
                async move {
                    tokio::time::sleep(late).await;
                    sent.await
                }
                .boxed()
            }
            Some(Fault::Cut) => lost(self.upload.put_part(half(&data))),
            Some(Fault::CutSilently) => self.upload.put_part(half(&data)),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match self.faults.next() {
            Some(Fault::Refused | Fault::Cut) => Err(failed()),
            Some(Fault::AnswerLost) => self.upload.complete().await.and(Err(failed())),
            Some(Fault::Late) => {
                let done = self.upload.complete().await;
                tokio::time::sleep(self.faults.lateness()).await;
                done
            }
            _ => self.upload.complete().await,
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn a_cut_put_leaves_half_and_a_lost_answer_leaves_all() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (fault, left, told) in [
            (Fault::Refused, None, false),
            (Fault::AnswerLost, Some(4), false),
            (Fault::CutSilently, Some(2), true),
        ] {
            let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let faulty = Faulty::new(Arc::clone(&objects), Arc::new(Faults::span(0, 1, fault)));
            let path = Path::from("a");
            let put = runtime.block_on(faulty.put(&path, PutPayload::from_static(b"1234")));
            assert_eq!(put.is_ok(), told, "{fault:?}");
            let size = runtime.block_on(objects.head(&path)).ok().map(|about| about.size);
            assert_eq!(size, left, "{fault:?}");
        }
    }
}

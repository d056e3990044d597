//! What all parts of a server share.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use remaster::{Task, WorkerProgram};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::child::{self, Ended};
use crate::door::Door;
use crate::folders::{Folders, Place};
use crate::job::Media;
use crate::jobs::Jobs;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::uploads::Uploads;
use crate::webhooks::Secret;

/// How long looking at a film may take: a measurement takes a few seconds, a slow disk more.
const LOOKING: Duration = Duration::from_secs(120);

/// How long a client waits for others that look at films.
const QUEUEING: Duration = Duration::from_secs(30);

/// Processes that look at films at the same time.
const LOOKERS: usize = 2;

/// Requests that may write to the disk at the same time: each has a thread of its own while it waits.
const DISK: usize = 16;

/// Requests that may wait for an allowed folder at the same time. It may be on a disk of the network that does not answer, and
/// what waits there cannot be ended.
const SHARES: usize = 16;

/// How long what was asked of the machine is believed.
const FRESH: Duration = Duration::from_secs(30);

/// A film, and what other processes open it by.
#[derive(Clone)]
pub(crate) struct Film {
    pub(crate) path: PathBuf,
    /// What clients call it.
    pub(crate) name: String,
    /// Keeps the path valid.
    _held: Option<Arc<File>>,
}

impl Film {
    /// A file in a folder of our own.
    pub(crate) fn at(path: PathBuf, name: &str) -> Self {
        Film { path, name: name.to_owned(), _held: None }
    }

    /// An error in the words of clients, who know films by their names.
    fn plain(&self, error: &str) -> String {
        error.replace(&self.path.display().to_string(), &self.name)
    }

    /// A file in a folder that others can change: what was opened is what is read, whatever its path becomes. Only Linux lets
    /// other processes open a handle of ours.
    fn held(file: File, path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        #[cfg(target_os = "linux")]
        let path = {
            use std::os::fd::AsRawFd;
            drop(path);
            PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
        };
        Film { path, name, _held: Some(Arc::new(file)) }
    }
}

/// What all parts of a server share.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) worker: WorkerProgram,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) uploads: Uploads,
    pub(crate) folders: Folders,
    pub(crate) door: Door,
    pub(crate) secret: Secret,
    /// Folder of previews.
    pub(crate) previews: remaster_disk::Folder,
    pub(crate) lookers: Arc<Semaphore>,
    /// Turns of work that waits for the disk.
    pub(crate) disk: Arc<Semaphore>,
    /// Turns of work that waits for an allowed folder.
    pub(crate) shares: Arc<Semaphore>,
    /// Answers of the machine, and when they were given.
    pub(crate) asked: Mutex<Vec<(&'static str, Instant, Value)>>,
    /// Frames per second of films that were looked at, and when.
    pub(crate) rates: Mutex<HashMap<(String, bool), (f64, u64)>>,
    /// When the server was started.
    pub(crate) started: u64,
}

impl App {
    pub(crate) fn lookers() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(LOOKERS))
    }

    pub(crate) fn disk() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(DISK))
    }

    /// Does what waits for the disk, when it is its turn.
    pub(crate) async fn on_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        // It is never closed.
        let _turn = self.disk.acquire().await.ok();
        tokio::task::block_in_place(work)
    }

    pub(crate) fn shares() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(SHARES))
    }

    /// Does what waits for an allowed folder, when it is its turn.
    pub(crate) async fn on_share<T>(&self, work: impl FnOnce() -> T) -> Result<T, Problem> {
        let busy =
            |_| Problem::busy("busy", "a folder of --allow-folder does not answer; try again in a moment");
        let _turn = tokio::time::timeout(QUEUEING, self.shares.acquire()).await.map_err(busy)?;
        Ok(tokio::task::block_in_place(work))
    }

    /// The film of a request that looks at one.
    pub(crate) async fn film_now(&self, media: &Media) -> Result<Film, Problem> {
        match media {
            Media::Path { .. } => self.on_share(|| self.film(media)).await?,
            Media::File { .. } | Media::Url { .. } => tokio::task::block_in_place(|| self.film(media)),
        }
    }

    /// The film of a job. A path is walked anew, so that a link that was planted meanwhile is not followed.
    pub(crate) fn film(&self, media: &Media) -> Result<Film, Problem> {
        match media {
            Media::File { id } => {
                let upload = self.uploads.get(id).ok_or_else(|| Problem::missing("file"))?;
                upload.usable()?;
                Ok(Film::at(self.uploads.path(&upload), &upload.name))
            }
            Media::Path { folder, names } => {
                let place = Place { folder: folder.clone(), names: names.clone() };
                Ok(Film::held(self.folders.open(&place)?, place.path()))
            }
            Media::Url { url } => Err(Problem::value(format!("{url} is fetched when the job starts"))),
        }
    }

    /// Looks at a film in a process of its own. It ends with the request: a client that goes away cancels it.
    pub(crate) async fn look(self: &Arc<Self>, task: Task, film: Option<&Film>) -> Result<Value, Problem> {
        Ok(self.look_with(task, film, ()).await?.0)
    }

    /// The same with something that the process needs to its end.
    pub(crate) async fn look_with<H: Send + 'static>(
        self: &Arc<Self>,
        task: Task,
        film: Option<&Film>,
        held: H,
    ) -> Result<(Value, H), Problem> {
        let busy = || Problem::busy("busy", "other films are being looked at; try again in a moment");
        let waited = tokio::time::timeout(QUEUEING, Arc::clone(&self.lookers).acquire_owned()).await;
        let turn = waited.map_err(|_| busy())?.map_err(|_| busy())?;
        let (value, (_turn, held)) = self.process(task, film, Some(LOOKING), (turn, held)).await?;
        Ok((value, held))
    }

    /// The same without a turn. If the client goes away, `held` and the film are kept until the process has ended.
    pub(crate) async fn process<H: Send + 'static>(
        self: &Arc<Self>,
        task: Task,
        film: Option<&Film>,
        limit: Option<Duration>,
        held: H,
    ) -> Result<(Value, H), Problem> {
        let gone = Arc::new(AtomicBool::new(false));
        let _flag = SetOnDrop(Arc::clone(&gone));
        let (app, film) = (Arc::clone(self), film.cloned());
        let work = move || {
            let stop = || gone.load(Ordering::SeqCst);
            let ended = child::run(&app.worker, &task, limit, &stop, &mut |_| ());
            (ended, held, film)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (ended, held, film) =
            done.map_err(|_| Problem::busy("internal", "the work ended early; try again"))?;
        ended.map(|value| (value, held)).map_err(|ended| match ended {
            Ended::Stopped => Problem::busy("interrupted", "this was stopped; try again"),
            Ended::Failed { error, kind } => {
                let error = film.map_or(error.clone(), |film: Film| film.plain(&error));
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, kind, error)
            }
        })
    }

    /// What the machine says of itself, asked at most every half minute.
    pub(crate) async fn ask(self: &Arc<Self>, what: &'static str, task: Task) -> Result<Value, Problem> {
        let known = |app: &App| {
            let asked = app.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked
                .iter()
                .find(|(word, when, _)| *word == what && when.elapsed() < FRESH)
                .map(|(.., value)| value.clone())
        };
        if let Some(value) = known(self) {
            return Ok(value);
        }
        let value = self.look(task, None).await?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|(word, ..)| *word != what);
        asked.push((what, Instant::now(), value.clone()));
        Ok(value)
    }
}

/// Tells a thread that it is not waited for any more.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

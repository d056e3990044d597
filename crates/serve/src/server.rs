//! A server from its start to its end.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use remaster::WorkerProgram;
use remaster_disk::{Folder, if_there};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::door::Door;
use crate::error::ServeError;
use crate::folders::Folders;
use crate::job::Media;
use crate::jobs::Jobs;
use crate::settings::Settings;
use crate::uploads::Uploads;
use crate::watched::Watched;
use crate::webhooks::Secret;
use crate::{hooks, routes, runner, time};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(15);

/// Connections at the same time.
const CONNECTIONS: usize = 512;

/// Threads that answer. Work is done by other processes.
const THREADS: usize = 2;

/// How often what is old is looked for.
const SWEEP: Duration = Duration::from_secs(600);

/// How often the wish to stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// The lock of a folder, and the secret of webhooks.
const LOCK: &str = "lock";
const SECRET: &str = "webhook-secret";

/// A server that listens. Nothing is answered before [`Server::run`].
pub struct Server {
    app: Arc<App>,
    listener: StdListener,
    address: SocketAddr,
    /// Held as long as the server lives.
    _lock: File,
}

impl Server {
    /// Opens the folder of the server and its port. Jobs that were there wait again.
    pub fn bind(settings: Settings, worker: WorkerProgram) -> Result<Self, ServeError> {
        let door = Door::new(settings.token.as_deref(), settings.listen, &settings.names)?;
        let folders = Folders::new(&settings.folders)?;
        let wrong = |source| ServeError::State { path: settings.state.clone(), source };
        let state = private(&settings.state).map_err(wrong)?;
        let lock = locked(&state, &settings)?;
        let jobs = state.make_folder("jobs").map_err(wrong)?;
        let jobs = Jobs::open(jobs, settings.devices.len(), settings.jobs, settings.keep).map_err(wrong)?;
        let files = state.make_folder("files").map_err(wrong)?;
        let uploads = Uploads::open(files, settings.upload_limit).map_err(wrong)?;
        // Pictures of an earlier server are not asked for any more.
        // One that another program has open stays.
        let _ = state.remove_tree("previews");
        let previews = state.make_folder("previews").map_err(wrong)?;
        let secret = secret(&state).map_err(wrong)?;
        let wanted = SocketAddr::new(settings.listen, settings.port);
        let refused = |source| ServeError::Listen { address: wanted, source };
        let listener = StdListener::bind(wanted).map_err(refused)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let app = Arc::new(App {
            door,
            worker,
            jobs: Arc::new(jobs),
            uploads,
            folders,
            secret,
            previews,
            lookers: App::lookers(),
            large: App::large(),
            asked: Mutex::default(),
            rates: Mutex::new(HashMap::new()),
            started: time::now(),
            settings,
        });
        Ok(Server { app, listener, address, _lock: lock })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` says so. Running jobs are stopped then, and go on with the next server.
    pub fn run(self, stop: &dyn Fn() -> bool) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(64)
            .enable_all()
            .build()?;
        let app = &self.app;
        let mut devices = Vec::new();
        for slot in 0..app.settings.devices.len() {
            let app = Arc::clone(app);
            let work = move || runner::run(&app, slot);
            devices.push(std::thread::Builder::new().name(format!("device {slot}")).spawn(work)?);
        }
        let router = routes::all(app);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener)?
        };
        runtime.spawn(hooks::run(Arc::clone(app), app.jobs.watch()));
        runtime.spawn(sweep(Arc::clone(app)));
        runtime.spawn(accept(listener, router));
        while !stop() {
            std::thread::sleep(POLL);
        }
        app.jobs.stop();
        devices.into_iter().for_each(|device| drop(device.join()));
        // Clients that are in the middle of something are cut off.
        runtime.shutdown_timeout(POLL);
        Ok(())
    }
}

async fn accept(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of handles, for one: others will be closed.
            tokio::time::sleep(POLL).await;
            continue;
        };
        let (stream, moved) = Watched::new(stream);
        let service = TowerToHyperService::new(router.clone().layer(Extension(moved.clone())));
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = connection => {}
                () = moved.until_still() => {}
            }
            drop(place);
        });
    }
}

/// Removes what is old, now and then.
async fn sweep(app: Arc<App>) {
    loop {
        let app = Arc::clone(&app);
        let work = move || {
            app.jobs.expire();
            let jobs = app.jobs.all();
            let needed = |id: &str| jobs.iter().any(|job| job.media == Media::File { id: id.to_owned() });
            app.uploads.expire(app.settings.keep, needed);
        };
        let _ = tokio::task::spawn_blocking(work).await;
        tokio::time::sleep(SWEEP).await;
    }
}

/// The folder of the server, which other users cannot look into.
fn private(path: &Path) -> std::io::Result<Folder> {
    let path = std::path::absolute(path)?;
    if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
        match Folder::make(above)?.new_folder(name, true) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Folder::open(&path)
}

fn locked(state: &Folder, settings: &Settings) -> Result<File, ServeError> {
    let wrong = |source| ServeError::State { path: settings.state.clone(), source };
    let file = state.edit_or_create(LOCK).map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(ServeError::Taken(settings.state.clone())),
        Err(std::fs::TryLockError::Error(error)) => Err(wrong(error)),
    }
}

/// The secret that webhooks are signed with, which is made once.
fn secret(state: &Folder) -> std::io::Result<Secret> {
    if let Some(bytes) = if_there(state.bytes(SECRET, 1 << 10))? {
        let text = String::from_utf8_lossy(&bytes);
        return text.trim().parse().map_err(|error| std::io::Error::other(format!("{SECRET}: {error}")));
    }
    let secret = Secret::random().map_err(std::io::Error::other)?;
    state.write_whole(SECRET, |file| file.write_all(secret.as_str().as_bytes()))?;
    Ok(secret)
}

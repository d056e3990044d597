//! A server from its start to its end.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use remaster::WorkerProgram;
use remaster_disk::{Folder, if_there};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::app::App;
use crate::door::Door;
use crate::error::ServeError;
use crate::folders::Folders;
use crate::jobs::Jobs;
use crate::places::{CONNECTIONS, Place, Places};
use crate::proxies::Proxies;
use crate::settings::Settings;
use crate::uploads::Uploads;
use crate::watched::{Client, Watched};
use crate::webhooks::Secret;
use crate::{hooks, routes, runner, time};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(15);

/// Bytes of a head, and of what is read at once. The longest path of Linux has 12 KiB in an address.
const BUFFER: usize = 16 << 10;

/// Threads that answer. Work is done by other processes.
const THREADS: usize = 2;

/// Threads that wait for the disk, at most: one for each connection, and those of work that goes on without a client. With
/// fewer, clients that wait for a slow disk keep the others from being answered.
const WAITING: usize = CONNECTIONS + 64;

/// How often what is old is looked for.
const SWEEP: Duration = Duration::from_secs(600);

/// How often the wish to stop is looked for, and a handle that the system has not.
const POLL: Duration = Duration::from_millis(100);

/// How often a handle is looked for after a place was given up.
const GIVEN: Duration = Duration::from_millis(5);

/// The lock of a folder, and the secret of webhooks.
const LOCK: &str = "lock";
const SECRET: &str = "webhook-secret";

/// A server that listens. Nothing is answered before [`Server::run`].
pub struct Server {
    app: Arc<App>,
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    warnings: Vec<String>,
    /// Held as long as the server lives.
    _lock: File,
}

impl Server {
    /// Opens the folder of the server and its port. Jobs that were there wait again.
    pub fn bind(settings: Settings, worker: WorkerProgram) -> Result<Self, ServeError> {
        // Each thread that answers writes a time once, and hyper panics of these.
        time::date().ok_or(ServeError::Clock)?;
        let door = Door::new(settings.token.as_deref(), settings.listen, &settings.names)?;
        let folders = Folders::new(&settings.folders)?;
        let wrong = |source| ServeError::State { path: settings.state.clone(), source };
        let state = private(&settings.state).map_err(wrong)?;
        let lock = locked(&state, &settings)?;
        let mut warnings = open_to_others(&state).map_err(wrong)?;
        let jobs = closed(&state, "jobs").map_err(wrong)?;
        let jobs = Jobs::open(jobs, settings.devices.len(), settings.jobs, settings.keep).map_err(wrong)?;
        let files = closed(&state, "files").map_err(wrong)?;
        let uploads = Uploads::open(files, settings.upload_limit).map_err(wrong)?;
        // Pictures of an earlier server are not asked for any more.
        // One that another program has open stays.
        let _ = state.remove_tree("previews");
        let previews = closed(&state, "previews").map_err(wrong)?;
        let secret = secret(&state, &mut warnings).map_err(wrong)?;
        let wanted = SocketAddr::new(settings.listen, settings.port);
        let refused = |source| ServeError::Listen { address: wanted, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(WAITING)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind(wanted)).map_err(refused)?;
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
            disk: App::disk(),
            shares: App::shares(),
            asked: Mutex::default(),
            rates: Mutex::new(HashMap::new()),
            started: time::now(),
            settings,
        });
        Ok(Server { app, runtime, listener, address, warnings, _lock: lock })
    }

    /// Sentences about what was found at the start and should be changed.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` says so. Running jobs are stopped then, and go on with the next server.
    pub fn run(self, stop: &dyn Fn() -> bool) -> Result<(), ServeError> {
        let (app, runtime) = (&self.app, self.runtime);
        let mut devices = Vec::new();
        for slot in 0..app.settings.devices.len() {
            let app = Arc::clone(app);
            let work = move || runner::run(&app, slot);
            devices.push(std::thread::Builder::new().name(format!("device {slot}")).spawn(work)?);
        }
        let router = routes::all(app);
        runtime.spawn(hooks::run(Arc::clone(app), app.jobs.watch()));
        runtime.spawn(sweep(Arc::clone(app)));
        runtime.spawn(accept(self.listener, router, Places::new(Proxies::new(&app.settings.proxies))));
        while !stop() {
            std::thread::sleep(POLL);
        }
        app.jobs.stop();
        devices.into_iter().for_each(|device| drop(device.join()));
        app.jobs.close();
        // Clients that are in the middle of something are cut off.
        runtime.shutdown_timeout(POLL);
        Ok(())
    }
}

async fn accept(listener: TcpListener, router: Router, places: Arc<Places>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of handles, for one.
            tokio::time::sleep(if places.make_room() { GIVEN } else { POLL }).await;
            continue;
        };
        let (watched, client) = Watched::new(stream);
        let place = places.take(peer.ip(), &client.activity).await;
        tokio::spawn(serve(watched, client, place, router.clone()));
    }
}

/// Answers on one connection until it ends, is silent for too long, or its place is needed.
async fn serve(watched: Watched, client: Client, place: Arc<Place>, router: Router) {
    let (activity, held) = (Arc::clone(&client.activity), Arc::clone(&place));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(client.clone());
        request.extensions_mut().insert(Arc::clone(&held));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        // A client that has sent all may close its side.
        .half_close(true)
        .serve_connection(TokioIo::new(watched), service);
    tokio::select! {
        _ = connection => {}
        () = activity.until_still() => {}
        () = place.lost() => {}
    }
}

/// Removes what is old, now and then.
async fn sweep(app: Arc<App>) {
    loop {
        let app = Arc::clone(&app);
        let work = move || {
            app.jobs.expire();
            app.uploads.expire(app.settings.keep, |upload| app.jobs.knows(upload));
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

/// A warning if other users may do something in the folder of the server, which somebody else made.
fn open_to_others(state: &Folder) -> std::io::Result<Vec<String>> {
    let path = state.path().display();
    let text = format!(
        "other users may look into {path}; run `chmod 700 {path}`, or name another folder with --state"
    );
    Ok(state.is_open_to_others()?.then_some(text).into_iter().collect())
}

/// A folder of ours in it, for this user alone.
fn closed(state: &Folder, name: &str) -> std::io::Result<Folder> {
    let folder = match state.new_folder(name, true) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => state.folder(name)?,
        made => made?,
    };
    folder.make_private().map_err(|error| whose(name, &error))?;
    Ok(folder)
}

fn whose(name: &str, error: &std::io::Error) -> std::io::Error {
    std::io::Error::other(format!("other users may look into {name}, and that cannot be changed ({error})"))
}

/// The secret that webhooks are signed with, which is made once.
fn secret(state: &Folder, warnings: &mut Vec<String>) -> std::io::Result<Secret> {
    if let Some(bytes) = if_there(state.bytes(SECRET, 1 << 10))? {
        if state.make_file_private(SECRET).map_err(|error| whose(SECRET, &error))? {
            let path = state.path().join(SECRET);
            warnings.push(format!(
                "other users could read {}, with which webhooks are signed; remove it for a new one",
                path.display()
            ));
        }
        let text = String::from_utf8_lossy(&bytes);
        return text.trim().parse().map_err(|error| std::io::Error::other(format!("{SECRET}: {error}")));
    }
    let secret = Secret::random().map_err(std::io::Error::other)?;
    state.write_private(SECRET, |file| file.write_all(secret.as_str().as_bytes()))?;
    Ok(secret)
}

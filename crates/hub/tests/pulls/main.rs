//! Downloads from a server in this process that misbehaves as told.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod cached;
mod faults;
mod kills;
mod refusals;
mod server;
mod space;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use remaster_hub::{Event, Hub, HubError, HubSettings, Limits, Lookup, Wanted};
use server::{COMMIT, Content, Server};
use tempfile::TempDir;

const REPO: &str = "owner/name";
const FILE: &str = "model.safetensors";

/// A cache of its own for one test.
struct Desk(TempDir);

/// Short waits between attempts; those for a server are long, as machines that run tests can be slow.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(10),
    stall: Duration::from_secs(10),
    lock: Duration::from_secs(30),
    retries: 3,
    backoff: Duration::from_millis(5),
    longest_wait: Duration::from_secs(2),
};

impl Desk {
    fn new() -> Self {
        Desk(tempfile::tempdir().unwrap())
    }

    fn settings(&self, server: &Server) -> HubSettings {
        HubSettings { endpoint: server.url(), limits: LIMITS, ..HubSettings::new(self.0.path()) }
    }

    fn repo(&self) -> PathBuf {
        self.0.path().join("models--owner--name")
    }

    fn blob(&self, name: &str) -> PathBuf {
        self.repo().join("blobs").join(name)
    }

    fn partial(&self, content: &Content) -> PathBuf {
        self.blob(&format!("{}.incomplete", content.sha256))
    }

    /// Leaves the start of a file as an earlier run would.
    fn begun(&self, content: &Content, start: &[u8]) {
        std::fs::create_dir_all(self.repo().join("blobs")).unwrap();
        std::fs::write(self.partial(content), start).unwrap();
    }
}

/// A cache, a file, and a hub that has it.
fn scene(length: usize) -> (Desk, Arc<Content>, Server) {
    let content = Content::new(length);
    let server = server::hub(&content, server::all);
    (Desk::new(), content, server)
}

fn wanted(content: &Content) -> Wanted<'_> {
    Wanted { repo: REPO, file: FILE, sha256: &content.sha256, bytes: None }
}

fn pull(settings: HubSettings, content: &Content) -> Result<PathBuf, HubError> {
    pull_with(settings, content, &mut |_| {})
}

fn pull_with(
    settings: HubSettings,
    content: &Content,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<PathBuf, HubError> {
    let hub = Hub::new(settings, Arc::new(|| false))?;
    match hub.look(&wanted(content), events)? {
        Lookup::Here(path) => Ok(path),
        Lookup::There(remote) => hub.pull(&remote, events),
    }
}

#[track_caller]
fn is_whole(path: &Path, content: &Content) {
    assert!(std::fs::read(path).unwrap() == content.bytes, "{} is not the file", path.display());
}

#[test]
fn a_file_gets_where_huggingface_hub_puts_it() {
    let (desk, content, server) = scene(3_000_000);
    let mut seen = Vec::new();
    let path = pull_with(desk.settings(&server), &content, &mut |event| {
        if let Event::Received { done, of } = event {
            seen.push((done, of));
        }
    });
    let path = path.unwrap();
    is_whole(&path, &content);
    assert_eq!(path, desk.repo().join("snapshots").join(COMMIT).join(FILE));
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("../../blobs").join(&content.sha256));
    assert_eq!(std::fs::read_to_string(desk.repo().join("refs/main")).unwrap(), COMMIT);
    assert!(!desk.partial(&content).exists());
    assert!(seen.is_sorted() && seen.first() == Some(&(0, 3_000_000)), "{:?}", seen.first());
    assert_eq!(seen.last(), Some(&(3_000_000, 3_000_000)));
    assert_eq!(server.requests()[0].path, "/owner/name/resolve/main/model.safetensors");
    assert!(server.requests().iter().all(|r| r.header("authorization").is_none()));
}

#[test]
fn a_file_in_a_folder_links_up_far_enough() {
    let (desk, content, server) = scene(1000);
    let hub = Hub::new(desk.settings(&server), Arc::new(|| false)).unwrap();
    let wanted = Wanted { file: "a/b/c.bin", ..wanted(&content) };
    let Lookup::There(remote) = hub.look(&wanted, &mut |_| {}).unwrap() else { panic!("not there yet") };
    assert_eq!((remote.bytes(), hub.missing(&remote)), (1000, 1000));
    is_whole(&hub.pull(&remote, &mut |_| {}).unwrap(), &content);
}

#[test]
fn a_token_goes_to_the_endpoint_and_not_where_it_redirects() {
    let (desk, content) = (Desk::new(), Content::new(200_000));
    let cdn = {
        let content = content.clone();
        Server::new(move |request, stream| content.send(request, stream, usize::MAX))
    };
    // Another port in the first run, another name of the same port in the second.
    for other_name in [false, true] {
        let cdn_url = if other_name { cdn.other_name() } else { cdn.url() };
        let (content2, etag) = (content.clone(), format!("\"{}\"", content.sha256));
        let server = Server::new(move |request, stream| {
            let size = content2.bytes.len().to_string();
            let location = format!("{cdn_url}/bytes?signature=1");
            let mut headers = vec![("Location", location.as_str()), ("Content-Length", "0")];
            if request.path.contains("/resolve/main/") {
                // First a redirect on the hub itself, as for a repository that was renamed.
                headers[0].1 = "/renamed/file";
            } else {
                headers.extend([
                    ("X-Repo-Commit", COMMIT),
                    ("X-Linked-Etag", &etag),
                    ("X-Linked-Size", &size),
                ]);
            }
            server::head(stream, "302 Found", &headers)
        });
        let settings = HubSettings { token: Some("hf_secret".into()), ..desk.settings(&server) };
        is_whole(&pull(settings, &content).unwrap(), &content);
        let sent = |r: &server::Request| r.header("authorization") == Some("Bearer hf_secret");
        assert_eq!(server.requests().len(), 4);
        assert!(server.requests().iter().all(sent), "{:?}", server.requests());
        assert!(cdn.requests().iter().all(|r| r.header("authorization").is_none()), "{:?}", cdn.requests());
        std::fs::remove_dir_all(desk.repo()).unwrap();
    }
    assert_eq!(cdn.gets().len(), 2);
    assert_eq!(cdn.requests().len(), 2, "the host of the bytes is asked for nothing else");
}

#[test]
fn a_stop_ends_a_transfer_that_is_silent() {
    let (desk, content) = (Desk::new(), Content::new(500_000));
    let server = server::hub(&content, |content, request, stream| {
        content.send(request, stream, 100_000)?;
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    });
    let settings = desk.settings(&server);
    let started = std::time::Instant::now();
    let hub = Hub::new(settings, Arc::new(move || started.elapsed() > Duration::from_millis(400))).unwrap();
    let Lookup::There(remote) = hub.look(&wanted(&content), &mut |_| {}).unwrap() else { panic!() };
    let error = hub.pull(&remote, &mut |_| {}).unwrap_err();
    assert!(matches!(error, HubError::Cancelled), "{error}");
    // Under Wine a read goes on when its connection is shut down: it ends with the server's silence.
    let limit = Duration::from_secs(if cfg!(windows) { 10 } else { 2 });
    assert!(started.elapsed() < limit, "{:?}", started.elapsed());
    assert_eq!(std::fs::read(desk.partial(&content)).unwrap(), content.bytes[..100_000]);
}

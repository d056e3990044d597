//! Files that are in the cache already, or that two processes want at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A cache as huggingface_hub leaves it.
#[cfg(unix)]
fn cached(desk: &Desk, blob: &str, bytes: &[u8]) -> PathBuf {
    std::fs::create_dir_all(desk.repo().join("blobs")).unwrap();
    std::fs::create_dir_all(desk.repo().join("snapshots").join(COMMIT)).unwrap();
    std::fs::write(desk.blob(blob), bytes).unwrap();
    let path = desk.repo().join("snapshots").join(COMMIT).join(FILE);
    std::os::unix::fs::symlink(format!("../../blobs/{blob}"), &path).unwrap();
    path
}

fn offline(desk: &Desk) -> HubSettings {
    HubSettings { offline: true, endpoint: "http://127.0.0.1:9".into(), ..HubSettings::new(desk.0.path()) }
}

#[test]
fn offline_nothing_is_asked() {
    let (desk, content, server) = scene(1000);
    let settings = HubSettings { offline: true, ..desk.settings(&server) };
    let text = pull(settings, &content).unwrap_err().to_string();
    assert!(text.contains("HF_HUB_OFFLINE") && text.contains(FILE), "{text}");
    assert_eq!(server.requests().len(), 0);
    // What was downloaded before is there.
    let path = pull(desk.settings(&server), &content).unwrap();
    assert_eq!(pull(offline(&desk), &content).unwrap(), path);
}

#[test]
#[cfg(unix)]
fn a_file_of_another_tool_is_found_without_a_request() {
    let content = Content::new(1000);
    // Large files are named by their hash, small ones by git's.
    for blob in [content.sha256.as_str(), "ce013625030ba8dba906f756967f9e9ca394464a"] {
        let desk = Desk::new();
        let path = cached(&desk, blob, &content.bytes);
        assert_eq!(pull(offline(&desk), &content).unwrap(), path);
    }
}

#[test]
#[cfg(unix)]
fn another_revision_is_not_taken_for_it_and_a_damaged_file_stays() {
    let (desk, content) = (Desk::new(), Content::new(1000));
    cached(&desk, &Content::new(2000).sha256, &Content::new(2000).bytes);
    assert!(matches!(pull(offline(&desk), &content), Err(HubError::Offline { .. })));

    let desk = Desk::new();
    cached(&desk, &content.sha256, b"cut off");
    let error = pull(offline(&desk), &content).unwrap_err();
    assert!(matches!(error, HubError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("delete it"), "{error}");
    assert_eq!(std::fs::read(desk.blob(&content.sha256)).unwrap(), b"cut off");
}

#[test]
#[cfg(unix)]
fn a_link_to_nothing_is_replaced() {
    let (desk, content, server) = scene(1000);
    let path = cached(&desk, &content.sha256, &content.bytes);
    std::fs::remove_file(desk.blob(&content.sha256)).unwrap();
    assert_eq!(pull(desk.settings(&server), &content).unwrap(), path);
    is_whole(&path, &content);
}

#[test]
#[cfg(unix)]
fn a_blob_without_a_link_is_linked() {
    let (desk, content, server) = scene(1000);
    let path = cached(&desk, &content.sha256, &content.bytes);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(pull(desk.settings(&server), &content).unwrap(), path);
    is_whole(&path, &content);
    assert_eq!(server.gets().len(), 0);
}

/// As where links cannot be made, by another process that was first.
#[test]
fn a_file_in_its_snapshot_without_a_blob_is_taken() {
    let (desk, content, server) = scene(1000);
    let hub = Hub::new(desk.settings(&server), Arc::new(|| false)).unwrap();
    let Lookup::There(remote) = hub.look(&wanted(&content), &mut |_| {}).unwrap() else { panic!() };
    let path = desk.repo().join("snapshots").join(COMMIT).join(FILE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, &content.bytes).unwrap();
    assert_eq!(hub.pull(&remote, &mut |_| {}).unwrap(), path);
    is_whole(&path, &content);
    assert_eq!(server.gets().len(), 0);
    std::fs::write(&path, b"cut off").unwrap();
    assert!(matches!(hub.pull(&remote, &mut |_| {}), Err(HubError::Damaged { .. })));
}

#[test]
fn two_at_once_download_once() {
    let (desk, content) = (Desk::new(), Content::new(3_000_000));
    let gets = Arc::new(AtomicUsize::new(0));
    let counted = gets.clone();
    let server = server::hub(&content, move |content, request, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        content.send(request, stream, usize::MAX)
    });
    let waited = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let path = pull_with(desk.settings(&server), &content, &mut |event| {
                    *waited.lock().unwrap() += u32::from(matches!(event, Event::Waiting { .. }));
                });
                is_whole(&path.unwrap(), &content);
            });
        }
    });
    assert_eq!((gets.load(Ordering::SeqCst), *waited.lock().unwrap()), (1, 2));
}

#[test]
fn the_wait_for_another_process_has_an_end() {
    let (desk, content, server) = scene(1000);
    let locks = desk.0.path().join(".locks/models--owner--name");
    std::fs::create_dir_all(&locks).unwrap();
    let lock = std::fs::File::create(locks.join(format!("{}.lock", content.sha256))).unwrap();
    lock.lock().unwrap();
    let limits = Limits { lock: Duration::from_millis(250), ..LIMITS };
    let error = pull(HubSettings { limits, ..desk.settings(&server) }, &content).unwrap_err();
    assert!(matches!(error, HubError::Locked { .. }), "{error}");
    assert_eq!(server.gets().len(), 0);
    drop(lock);
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
}

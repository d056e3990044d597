//! Disks that are full before or during a download.

#[cfg(target_os = "linux")]
use remaster_testkit::{Mounted, no_disk};

use super::*;

#[test]
fn a_file_that_cannot_fit_is_not_begun() {
    let desk = Desk::new();
    let content = Content::new(10);
    // Larger than any disk.
    let bytes = 1u64 << 60;
    let hash = content.sha256.clone();
    let server = Server::new(move |_, stream| {
        let (etag, size) = (format!("\"{hash}\""), bytes.to_string());
        let headers = [("X-Repo-Commit", COMMIT), ("X-Linked-Etag", &etag), ("X-Linked-Size", &size)];
        server::head(stream, "200 OK", &headers)
    });
    let hub = Hub::new(desk.settings(&server), Arc::new(|| false)).unwrap();
    let Lookup::There(remote) = hub.look(&wanted(&content), &mut |_| {}).unwrap() else { panic!() };
    if cfg!(unix) {
        for error in [hub.room([&remote]).unwrap_err(), hub.pull(&remote, &mut |_| {}).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("1073741824.00 GiB") && text.contains("HF_HUB_CACHE"), "{text}");
        }
        assert_eq!(server.gets().len(), 0);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_fills_up_keeps_what_came_and_a_later_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::new(folder.path(), "size=8m") else {
        return no_disk("a_disk_that_fills_up_keeps_what_came_and_a_later_run_continues");
    };
    let content = Content::new(5_000_000);
    // Somebody else takes the space as soon as the first bytes are on their way.
    let other = disk.0.join("other");
    let taken = other.clone();
    let server = server::hub(&content, move |content, request, stream| {
        if request.start().is_none() {
            std::fs::write(&taken, vec![1; 5_000_000])?;
        }
        content.send(request, stream, usize::MAX)
    });
    let settings =
        || HubSettings { endpoint: server.url(), limits: LIMITS, ..HubSettings::new(disk.0.join("cache")) };
    let error = pull(settings(), &content).unwrap_err();
    let HubError::Full { path, bytes } = &error else { panic!("{error}") };
    let there = std::fs::metadata(path).unwrap().len();
    assert!(there >= *bytes && there < 5_000_000 && *bytes > 1_000_000, "{error}");

    // Still full: said before anything is asked for.
    assert!(matches!(pull(settings(), &content), Err(HubError::NoSpace { .. })));
    assert_eq!(server.gets().len(), 1);

    std::fs::remove_file(other).unwrap();
    is_whole(&pull(settings(), &content).unwrap(), &content);
    assert_eq!(server.gets()[1].start(), Some(there as usize));
}

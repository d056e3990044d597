//! Tests of the queue.

use serde_json::Map;

use super::*;
use crate::job::Media;

fn job(key: Option<&str>) -> Job {
    Job {
        id: id::new().unwrap(),
        model: "anime".into(),
        input: Map::new(),
        media: Media::Url { url: "https://example.org/a.mkv".into() },
        name: "a.mkv".into(),
        ending: "mkv".into(),
        how: remaster::Restoration::default(),
        target: remaster::Target::default(),
        status: Status::Starting,
        paused: false,
        wish: None,
        rank: 0.0,
        created: time::now(),
        started: None,
        completed: None,
        error: None,
        error_kind: None,
        frames: None,
        seconds: None,
        memory: None,
        webhook: None,
        key: key.map(str::to_owned),
        asked: key.map(|_| "hash".to_owned()),
        base: String::new(),
    }
}

fn open(path: &std::path::Path, most: usize) -> Arc<Jobs> {
    Arc::new(Jobs::open(Folder::make(path).unwrap(), 1, most, Duration::from_secs(3600)).unwrap())
}

fn status(jobs: &Jobs, id: &str) -> Status {
    jobs.get(id).unwrap().status
}

#[test]
fn what_ran_waits_again_and_what_waited_keeps_its_place() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let ids: Vec<String> = (0..4).map(|_| jobs.add(job(None)).unwrap().0).collect();
    assert_eq!(jobs.take(0).unwrap().id, ids[0]);
    jobs.place(&ids[3], 0).unwrap();
    jobs.pause(&ids[1]).unwrap();
    // Killed: nothing is told, and nothing is kept that was not.
    drop(jobs);
    std::fs::create_dir(desk.path().join(id::new().unwrap())).unwrap();
    let jobs = open(desk.path(), 9);
    assert_eq!(jobs.all().len(), 4);
    assert_eq!(jobs.take(0).unwrap().id, ids[0]);
    jobs.ended(&ids[0], 0, End::Done { frames: Some(3), memory: None });
    assert_eq!(jobs.take(0).unwrap().id, ids[3]);
    jobs.ended(&ids[3], 0, End::Failed { error: "no".into(), kind: "disk-full".into() });
    assert_eq!(jobs.take(0).unwrap().id, ids[2]);
    assert_eq!(
        [0, 1, 2, 3].map(|i| status(&jobs, &ids[i])),
        [Status::Succeeded, Status::Starting, Status::Processing, Status::Failed]
    );
    jobs.retry(&ids[3]).unwrap();
    jobs.ended(&ids[2], 0, End::Stopped);
    // Its place is still the one that it was moved to.
    assert_eq!(jobs.take(0).unwrap().id, ids[3]);
}

#[test]
fn wishes_reach_a_job_in_every_state() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let (a, b) = (jobs.add(job(None)).unwrap().0, jobs.add(job(None)).unwrap().0);
    jobs.take(0).unwrap();
    assert!(!jobs.should_stop(&a) && jobs.remove(&a).is_err() && jobs.place(&a, 1).is_err());
    jobs.pause(&a).unwrap();
    assert!(jobs.should_stop(&a));
    jobs.ended(&a, 0, End::Stopped);
    assert!(jobs.get(&a).unwrap().paused);
    assert_eq!(jobs.take(0).unwrap().id, b);
    jobs.cancel(&b).unwrap();
    // A film that was finished all the same is there.
    jobs.ended(&b, 0, End::Stopped);
    assert_eq!(status(&jobs, &b), Status::Canceled);
    jobs.resume(&a).unwrap();
    assert_eq!(jobs.take(0).unwrap().id, a);
    jobs.ended(&a, 0, End::Done { frames: None, memory: None });
    assert!(jobs.pause(&a).is_err() && jobs.resume(&a).is_err() && jobs.retry(&a).is_err());
    jobs.cancel(&a).unwrap();
    assert_eq!(status(&jobs, &a), Status::Succeeded);
    jobs.remove(&a).unwrap();
    assert!(jobs.get(&a).is_none() && jobs.cancel(&a).is_err());
    assert!(!desk.path().join(&a).exists());
}

#[test]
fn wishes_outlive_a_server_that_was_killed_or_stopped() {
    let desk = tempfile::tempdir().unwrap();
    for is_killed in [true, false] {
        let jobs = open(desk.path(), 9);
        let (a, b) = (jobs.add(job(None)).unwrap().0, jobs.add(job(None)).unwrap().0);
        assert_eq!(jobs.take(0).unwrap().id, a);
        jobs.pause(&a).unwrap();
        if is_killed {
            drop(jobs);
        } else {
            jobs.stop();
            jobs.ended(&a, 0, End::Stopped);
        }
        let jobs = open(desk.path(), 9);
        assert!(jobs.get(&a).unwrap().paused && status(&jobs, &a) == Status::Starting);
        assert_eq!(jobs.take(0).unwrap().id, b);
        jobs.cancel(&b).unwrap();
        drop(jobs);
        let jobs = open(desk.path(), 9);
        assert!(status(&jobs, &b) == Status::Canceled && jobs.get(&b).unwrap().completed.is_some());
        jobs.cancel(&a).unwrap();
    }
}

#[test]
fn a_place_in_the_queue_is_one_record() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let mut ids: Vec<String> = (0..5).map(|_| jobs.add(job(None)).unwrap().0).collect();
    for (from, to) in [(4, 0), (0, 4), (1, 3), (3, 1), (2, 9), (0, 0)] {
        let written = |id: &String| std::fs::read(desk.path().join(id).join(RECORD)).unwrap();
        let before: Vec<Vec<u8>> = ids.iter().map(written).collect();
        jobs.place(&ids[from], to).unwrap();
        let changed = ids.iter().zip(&before).filter(|(id, before)| written(id) != **before).count();
        assert!(changed <= 1, "{changed}");
        let moved = ids.remove(from);
        ids.insert(to.min(ids.len()), moved);
        assert_eq!(waiting(&jobs.lock().jobs), ids, "{from} to {to}");
    }
    // Numbers between two others end.
    for _ in 0..200 {
        let last = ids.pop().unwrap();
        jobs.place(&last, 1).unwrap();
        ids.insert(1, last);
        assert_eq!(waiting(&jobs.lock().jobs), ids);
    }
    drop(jobs);
    assert_eq!(waiting(&open(desk.path(), 9).lock().jobs), ids);
}

#[test]
fn messages_are_told_once_and_lines_of_what_is_over_are_few() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let id = jobs.add(job(None)).unwrap().0;
    jobs.take(0).unwrap();
    let say = |text: &str| jobs.line(&id, &json!({"event": "message", "text": text}).to_string());
    say("one");
    let (text, seen) = jobs.logs(&id, 0);
    assert_eq!((text.as_str(), seen), ("one\n", 4));
    jobs.pause(&id).unwrap();
    jobs.ended(&id, 0, End::Stopped);
    jobs.resume(&id).unwrap();
    jobs.take(0).unwrap();
    say("two");
    assert_eq!(jobs.logs(&id, seen).0, "two\n");
    (0..100).for_each(|_| say("more"));
    assert_eq!(jobs.lines(&id, 0).len(), 102);
    jobs.ended(&id, 0, End::Done { frames: None, memory: None });
    assert_eq!(jobs.lines(&id, 0).len(), LAST_LINES);
}

#[test]
fn a_record_that_cannot_be_read_costs_no_other_job() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let (a, b) = (jobs.add(job(None)).unwrap().0, jobs.add(job(None)).unwrap().0);
    drop(jobs);
    let record = desk.path().join(&a).join(RECORD);
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    let jobs = open(desk.path(), 9);
    assert!(jobs.get(&a).is_none() && jobs.get(&b).is_some());
}

#[test]
fn a_key_makes_one_job_and_a_full_queue_none() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 2);
    let (id, new) = jobs.add(job(Some("k"))).unwrap();
    assert!(new);
    assert_eq!(jobs.add(job(Some("k"))).unwrap(), (id, false));
    let other = Job { asked: Some("other".into()), ..job(Some("k")) };
    assert!(jobs.add(other).is_err() && jobs.with_key("k", "other").is_err());
    assert_eq!(jobs.with_key("k", "hash").unwrap().unwrap(), jobs.all()[0].id);
    assert_eq!(jobs.with_key("l", "hash").unwrap(), None);
    jobs.add(job(None)).unwrap();
    assert!(jobs.add(job(None)).is_err());
}

#[test]
fn a_device_is_lent_only_while_it_is_free() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 2);
    let lent = jobs.borrow().unwrap();
    assert!(jobs.borrow().is_none());
    drop(lent);
    let id = jobs.add(job(None)).unwrap().0;
    jobs.take(0).unwrap();
    assert!(jobs.borrow().is_none());
    jobs.ended(&id, 0, End::Stopped);
    assert!(jobs.borrow().is_some());
}

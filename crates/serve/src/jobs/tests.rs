//! Tests of jobs with their records.

use std::path::Path;

use serde_json::{Map, json};

use super::feed::LAST_LINES;
use super::records::RECORD;
use super::*;
use crate::job::{Media, Webhook};

pub(super) fn job(key: Option<&str>) -> Job {
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
        stop: None,
        rank: 0.0,
        created: time::now(),
        started: None,
        completed: None,
        error: None,
        error_kind: None,
        frames: None,
        seconds: None,
        memory: None,
        saved: None,
        webhook: None,
        key: key.map(str::to_owned),
        asked: key.map(|_| "hash".to_owned()),
        base: String::new(),
    }
}

fn open(path: &Path, waiting: usize) -> Jobs {
    Jobs::open(Folder::make(path).unwrap(), 1, waiting, Duration::from_secs(3600)).unwrap()
}

fn now<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn add(jobs: &Jobs, job: Job) -> Result<(String, bool), Problem> {
    now(jobs.add(job))
}

fn remove(jobs: &Jobs, id: &str) -> Result<(), Problem> {
    now(jobs.remove(id))
}

/// Asks, and waits for the record.
fn ask(jobs: &Jobs, id: &str, action: Action) -> Result<(), Problem> {
    jobs.request(id, action)?.into_iter().for_each(|saving| drop(now(saving.done())));
    Ok(())
}

fn place(jobs: &Jobs, id: &str, position: usize) {
    jobs.place(id, position).unwrap().into_iter().for_each(|saving| drop(now(saving.done())));
}

/// Ends a run, and waits until that is seen.
fn end(jobs: &Jobs, id: &str, end: End) {
    jobs.ended(id, 0, end);
    until(|| jobs.slots() == [None]);
}

/// The next job.
fn take(jobs: &Jobs) -> String {
    jobs.take(0).unwrap().id
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn all(jobs: &Jobs) -> Vec<Value> {
    jobs.list(None, usize::MAX, &viewer()).0
}

pub(super) fn viewer() -> Viewer {
    Viewer { base: "http://localhost".into(), is_local: true }
}

fn order(jobs: &Jobs) -> Vec<String> {
    let mut waiting: Vec<_> = all(jobs).into_iter().filter(|job| job["position"].is_u64()).collect();
    waiting.sort_by_key(|job| job["position"].as_u64());
    waiting.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

fn done() -> End {
    End::Done { frames: Some(3), memory: None }
}

fn failed() -> End {
    End::Failed { error: "no".into(), kind: "disk-full".into() }
}

fn status(jobs: &Jobs, id: &str) -> Status {
    jobs.get(id).unwrap().status
}

#[test]
fn what_ran_waits_again_and_what_waited_keeps_its_place() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let ids: Vec<String> = (0..4).map(|_| add(&jobs, job(None)).unwrap().0).collect();
    assert_eq!(take(&jobs), ids[0]);
    place(&jobs, &ids[3], 0);
    ask(&jobs, &ids[1], Action::Pause).unwrap();
    // Killed: nothing is told, and nothing is kept that was not.
    drop(jobs);
    std::fs::create_dir(desk.path().join(id::new().unwrap())).unwrap();
    let jobs = open(desk.path(), 9);
    assert_eq!(all(&jobs).len(), 4);
    assert_eq!(take(&jobs), ids[0]);
    end(&jobs, &ids[0], done());
    assert_eq!(take(&jobs), ids[3]);
    end(&jobs, &ids[3], failed());
    assert_eq!(take(&jobs), ids[2]);
    assert_eq!(
        [0, 1, 2, 3].map(|i| status(&jobs, &ids[i])),
        [Status::Succeeded, Status::Starting, Status::Processing, Status::Failed]
    );
    ask(&jobs, &ids[3], Action::Retry).unwrap();
    end(&jobs, &ids[2], End::Stopped);
    // Its place is still the one that it was moved to.
    assert_eq!(take(&jobs), ids[3]);
}

#[test]
fn wishes_reach_a_job_in_every_state() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let (a, b) = (add(&jobs, job(None)).unwrap().0, add(&jobs, job(None)).unwrap().0);
    jobs.take(0).unwrap();
    assert!(!jobs.should_stop(&a) && remove(&jobs, &a).is_err() && jobs.place(&a, 1).is_err());
    ask(&jobs, &a, Action::Pause).unwrap();
    assert!(jobs.should_stop(&a));
    end(&jobs, &a, End::Stopped);
    assert!(jobs.get(&a).unwrap().paused);
    assert_eq!(take(&jobs), b);
    ask(&jobs, &b, Action::Cancel).unwrap();
    // A film that was finished all the same is there.
    end(&jobs, &b, End::Stopped);
    assert_eq!(status(&jobs, &b), Status::Canceled);
    ask(&jobs, &a, Action::Resume).unwrap();
    assert_eq!(take(&jobs), a);
    end(&jobs, &a, done());
    assert!(
        ask(&jobs, &a, Action::Pause).is_err()
            && ask(&jobs, &a, Action::Resume).is_err()
            && ask(&jobs, &a, Action::Retry).is_err()
    );
    ask(&jobs, &a, Action::Cancel).unwrap();
    assert_eq!(status(&jobs, &a), Status::Succeeded);
    remove(&jobs, &a).unwrap();
    assert!(jobs.get(&a).is_err() && ask(&jobs, &a, Action::Cancel).is_err());
    assert!(!desk.path().join(&a).exists());
}

#[test]
fn wishes_outlive_a_server_that_was_killed_or_stopped() {
    let desk = tempfile::tempdir().unwrap();
    for is_killed in [true, false] {
        let jobs = open(desk.path(), 9);
        let (a, b) = (add(&jobs, job(None)).unwrap().0, add(&jobs, job(None)).unwrap().0);
        assert_eq!(take(&jobs), a);
        ask(&jobs, &a, Action::Pause).unwrap();
        if is_killed {
            drop(jobs);
        } else {
            jobs.stop();
            end(&jobs, &a, End::Stopped);
        }
        let jobs = open(desk.path(), 9);
        assert!(jobs.get(&a).unwrap().paused && status(&jobs, &a) == Status::Starting);
        assert_eq!(take(&jobs), b);
        ask(&jobs, &b, Action::Cancel).unwrap();
        drop(jobs);
        let jobs = open(desk.path(), 9);
        assert!(status(&jobs, &b) == Status::Canceled && jobs.get(&b).unwrap().completed.is_some());
        ask(&jobs, &a, Action::Cancel).unwrap();
    }
}

#[test]
fn a_place_in_the_queue_is_one_record() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let mut ids: Vec<String> = (0..5).map(|_| add(&jobs, job(None)).unwrap().0).collect();
    for (from, to) in [(4, 0), (0, 4), (1, 3), (3, 1), (2, 9), (0, 0)] {
        let written = |id: &String| std::fs::read(desk.path().join(id).join(RECORD)).unwrap();
        let before: Vec<Vec<u8>> = ids.iter().map(written).collect();
        place(&jobs, &ids[from], to);
        let changed = ids.iter().zip(&before).filter(|(id, before)| written(id) != **before).count();
        assert!(changed <= 1, "{changed}");
        let moved = ids.remove(from);
        ids.insert(to.min(ids.len()), moved);
        assert_eq!(order(&jobs), ids, "{from} to {to}");
    }
    // Numbers between two others end.
    for _ in 0..200 {
        let last = ids.pop().unwrap();
        place(&jobs, &last, 1);
        ids.insert(1, last);
        assert_eq!(order(&jobs), ids);
    }
    drop(jobs);
    assert_eq!(order(&open(desk.path(), 9)), ids);
}

#[test]
fn messages_are_told_once_and_lines_of_what_is_over_are_few() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let id = add(&jobs, job(None)).unwrap().0;
    jobs.take(0).unwrap();
    let say = |text: &str| jobs.line(&id, &json!({"event": "message", "text": text}).to_string());
    say("one");
    let (text, seen) = jobs.logs(&id, 0);
    assert_eq!((text.as_str(), seen), ("one\n", 4));
    ask(&jobs, &id, Action::Pause).unwrap();
    end(&jobs, &id, End::Stopped);
    ask(&jobs, &id, Action::Resume).unwrap();
    jobs.take(0).unwrap();
    say("two");
    assert_eq!(jobs.logs(&id, seen).0, "two\n");
    (0..100).for_each(|_| say("more"));
    assert_eq!(jobs.lines(&id, 0).len(), 102);
    end(&jobs, &id, done());
    assert_eq!(jobs.lines(&id, 0).len(), LAST_LINES);
}

#[test]
fn a_record_that_cannot_be_read_costs_no_other_job() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let (a, b) = (add(&jobs, job(None)).unwrap().0, add(&jobs, job(None)).unwrap().0);
    drop(jobs);
    let record = desk.path().join(&a).join(RECORD);
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    let jobs = open(desk.path(), 9);
    assert!(jobs.get(&a).is_err() && jobs.get(&b).is_ok());
    let shown = jobs.shown(&a, &viewer()).unwrap();
    assert!(shown["status"] == "failed" && shown["error_kind"] == "unreadable-job", "{shown}");
    remove(&jobs, &a).unwrap();
    assert!(jobs.shown(&a, &viewer()).is_none() && !desk.path().join(&a).exists());
}

/// Writes a record as another program left it.
fn put(desk: &Path, id: &str, record: impl AsRef<[u8]>) {
    std::fs::create_dir_all(desk.join(id)).unwrap();
    std::fs::write(desk.join(id).join(RECORD), record).unwrap();
}

/// Of a paused job with a webhook, and of one that failed before its end was told. aa31a19 wrote them.
const OLD: [(&str, &str); 2] = [
    ("t7govv6iqwx7ib33zs5ofykzy", include_str!("tests/paused.json")),
    ("r2572gvvefmvnphi6lwp77anx", include_str!("tests/failed.json")),
];

#[test]
fn records_without_a_version_open() {
    let desk = tempfile::tempdir().unwrap();
    let [(paused, _), (failed, _)] = OLD;
    OLD.iter().for_each(|(id, record)| put(desk.path(), id, record));
    let jobs = open(desk.path(), 9);
    let job = jobs.get(paused).unwrap();
    assert!(job.paused && job.status == Status::Starting && job.webhook.is_some());
    assert_eq!((status(&jobs, failed), jobs.get(failed).unwrap().error.is_some()), (Status::Failed, true));
    // Its end is told, under the number that the other program gave it.
    until(|| jobs.messages(failed).is_some());
    let (_, messages) = jobs.messages(failed).unwrap();
    let completed = jobs.get(failed).unwrap().completed.unwrap();
    assert_eq!(messages[0].id, format!("{failed}-completed-{completed}"));
    ask(&jobs, paused, Action::Resume).unwrap();
    assert_eq!(take(&jobs), paused);
    drop(jobs);
    let record: Value =
        serde_json::from_slice(&std::fs::read(desk.path().join(paused).join(RECORD)).unwrap()).unwrap();
    assert_eq!((&record["version"], &record["status"]), (&json!(1), &json!("processing")));
}

#[test]
fn what_cannot_be_read_is_shown_with_its_reason_and_keeps_its_film() {
    let desk = tempfile::tempdir().unwrap();
    let (_, record) = OLD[0];
    let mut old: Value = serde_json::from_str(record).unwrap();
    let upload = id::new().unwrap();
    old["media"] = json!({"file": {"id": upload}});
    let mut newer = old.clone();
    newer["version"] = json!(2);
    newer["how"] = json!({"another": "form"});
    let mut option = old.clone();
    option["how"]["unknown"] = json!(1);
    let ids: Vec<String> = (0..4).map(|_| id::new().unwrap()).collect();
    let texts =
        [newer.to_string(), option.to_string(), old.to_string(), record[..record.len() / 2].to_owned()];
    for (id, text) in ids.iter().zip(&texts) {
        put(desk.path(), id, text);
        std::fs::write(desk.path().join(id).join("result.mkv"), "film").unwrap();
    }
    let jobs = open(desk.path(), 9);
    // Its fields are those of any other.
    let id = add(&jobs, job(None)).unwrap().0;
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let usual = jobs.shown(&id, &viewer()).unwrap();
    for (id, reason) in ids.iter().zip(["version 2", "unknown", "another", "damaged"]) {
        let shown = jobs.shown(id, &viewer()).unwrap();
        let error = shown["error"].as_str().unwrap();
        assert!(error.contains(reason) && error.contains("remove the job"), "{error}");
        assert_eq!(names(&shown), names(&usual));
        for action in [Action::Cancel, Action::Pause, Action::Resume, Action::Retry] {
            assert!(jobs.request(id, action).is_err());
        }
        assert!(jobs.get(id).is_err() && jobs.place(id, 0).is_err());
    }
    assert_eq!(jobs.shown(&ids[0], &viewer()).unwrap()["name"], old["name"]);
    assert_eq!((all(&jobs).len(), jobs.figures().by_status), (5, [1, 0, 0, 4, 0]));
    assert!(jobs.uses(&upload) && jobs.knows(&upload), "its upload stays");
    jobs.expire();
    drop(jobs);
    let jobs = open(desk.path(), 9);
    assert_eq!(std::fs::read(desk.path().join(&ids[0]).join("result.mkv")).unwrap(), b"film");
    for id in &ids {
        remove(&jobs, id).unwrap();
        assert!(!desk.path().join(id).exists());
    }
    assert!(!jobs.uses(&upload) && all(&jobs).len() == 1);
}

#[test]
fn a_key_makes_one_job_and_a_full_queue_none() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 2);
    let (id, new) = add(&jobs, job(Some("k"))).unwrap();
    assert!(new);
    assert_eq!(add(&jobs, job(Some("k"))).unwrap(), (id, false));
    let other = Job { asked: Some("other".into()), ..job(Some("k")) };
    assert!(add(&jobs, other).is_err() && jobs.with_key("k", "other").is_err());
    assert_eq!(jobs.with_key("k", "hash").unwrap().unwrap(), all(&jobs)[0]["id"]);
    assert_eq!(jobs.with_key("l", "hash").unwrap(), None);
    add(&jobs, job(None)).unwrap();
    assert!(add(&jobs, job(None)).is_err());
}

#[test]
fn a_device_is_lent_only_while_it_is_free() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 2);
    let lent = jobs.borrow().unwrap();
    assert!(jobs.borrow().is_none());
    drop(lent);
    let id = add(&jobs, job(None)).unwrap().0;
    jobs.take(0).unwrap();
    assert!(jobs.borrow().is_none());
    end(&jobs, &id, done());
    assert!(jobs.borrow().is_some());
}

#[test]
fn a_device_that_a_job_waits_for_is_not_lent() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 2);
    let id = add(&jobs, job(None)).unwrap().0;
    assert!(jobs.borrow().is_none(), "a preview came before a job");
    // A paused job waits for nothing.
    ask(&jobs, &id, Action::Pause).unwrap();
    assert!(jobs.borrow().is_some());
}

#[test]
fn what_clients_ask_for_holds_on_a_disk_that_takes_no_record() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let (a, b) = (add(&jobs, job(None)).unwrap().0, add(&jobs, job(None)).unwrap().0);
    assert_eq!(take(&jobs), a);
    let [away, home] = [desk.path().join("away"), desk.path().join(&a)];
    until(|| std::fs::read_to_string(home.join(RECORD)).unwrap().contains("processing"));
    // Without its folder no record can be written.
    std::fs::rename(&home, &away).unwrap();
    ask(&jobs, &a, Action::Cancel).unwrap();
    assert!(jobs.should_stop(&a));
    assert_eq!(jobs.shown(&a, &viewer()).unwrap()["status"], "canceled");
    end(&jobs, &a, End::Stopped);
    assert_eq!(status(&jobs, &a), Status::Canceled);
    assert_eq!(take(&jobs), b, "the device is free");
    // With room on the disk the record is written.
    std::fs::rename(&away, &home).unwrap();
    until(|| std::fs::read_to_string(home.join(RECORD)).unwrap().contains("canceled"));
    remove(&jobs, &a).unwrap();
    assert!(!home.exists());
}

#[test]
fn a_new_job_that_cannot_be_saved_is_none() {
    let desk = tempfile::tempdir().unwrap();
    let folder = desk.path().join("jobs");
    let jobs = open(&folder, 2);
    std::fs::remove_dir(&folder).unwrap();
    for _ in 0..5 {
        assert!(add(&jobs, job(Some("k"))).is_err());
    }
    assert!(all(&jobs).is_empty() && jobs.with_key("k", "hash").unwrap().is_none());
    drop(jobs);
    // The same key makes a job when the disk is there again.
    let jobs = open(&folder, 2);
    assert!(add(&jobs, job(Some("k"))).unwrap().1);
}

/// Makes each flush of a file or folder below `folder` take this long.
#[cfg(debug_assertions)]
fn slow(folder: &Path, pause: Duration) {
    let folder = folder.to_owned();
    remaster_disk::points::watch(move |point| {
        if point.op == remaster_disk::points::Op::Sync && !point.after && point.folder.starts_with(&folder) {
            std::thread::sleep(pause);
        }
    });
}

#[test]
#[cfg(debug_assertions)]
fn a_slow_disk_keeps_no_reader_and_no_change_waiting() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 99);
    let ids: Vec<String> = (0..3).map(|_| add(&jobs, job(None)).unwrap().0).collect();
    let pause = Duration::from_millis(700);
    slow(desk.path(), pause);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // Two with one key are one job, and both wait for its record.
        let new: Vec<_> = (0..2).map(|_| scope.spawn(|| add(&jobs, job(Some("k"))).unwrap())).collect();
        std::thread::sleep(Duration::from_millis(50));
        let quick = Instant::now();
        assert_eq!(all(&jobs).len(), 3, "a job is seen before its record is there");
        assert_eq!(take(&jobs), ids[0]);
        jobs.request(&ids[0], Action::Pause).unwrap();
        jobs.request(&ids[1], Action::Cancel).unwrap();
        jobs.place(&ids[2], 0).unwrap();
        assert_eq!(status(&jobs, &ids[1]), Status::Canceled);
        now(jobs.remove(&ids[1])).unwrap();
        assert!(!desk.path().join(&ids[1]).exists());
        assert!(quick.elapsed() < Duration::from_millis(300), "{:?}", quick.elapsed());
        let new: Vec<_> = new.into_iter().map(|new| new.join().unwrap()).collect();
        assert!(begun.elapsed() >= 2 * pause, "it was answered before its record was there");
        assert_eq!(
            (&new[0].0, [new[0].1, new[1].1].iter().filter(|is_new| **is_new).count()),
            (&new[1].0, 1)
        );
    });
    // A client waits a moment for the record of what it asks for, and no longer.
    let quick = Instant::now();
    now(jobs.request(&ids[2], Action::Pause).unwrap().unwrap().settle());
    assert!(quick.elapsed() < pause, "{:?}", quick.elapsed());
    // A job goes while its record is being written, and its files go after that.
    let cancelled = jobs.request(&ids[2], Action::Cancel).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    now(jobs.remove(&ids[2])).unwrap();
    assert!(jobs.get(&ids[2]).is_err());
    until(|| !desk.path().join(&ids[2]).exists());
    drop(cancelled);
    // The end of a run is seen when it is saved.
    jobs.ended(&ids[0], 0, done());
    assert_eq!(status(&jobs, &ids[0]), Status::Processing);
    until(|| status(&jobs, &ids[0]) == Status::Succeeded);
    let record = std::fs::read_to_string(desk.path().join(&ids[0]).join(RECORD)).unwrap();
    assert!(record.contains("succeeded"));
}

#[test]
fn pages_of_the_list_stay_whole_when_jobs_go_and_come() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 99);
    let id = |value: &Value| value["id"].as_str().unwrap().to_owned();
    // Some of the same millisecond.
    let made: Vec<String> =
        (0..9).map(|n| add(&jobs, Job { created: 1000 + n / 3, ..job(None) }).unwrap().0).collect();
    made.iter().for_each(|id| ask(&jobs, id, Action::Cancel).unwrap());
    let whole: Vec<String> = all(&jobs).iter().map(id).collect();
    let (mut seen, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let (page, next) = jobs.list(cursor.as_ref(), 2, &viewer());
        seen.extend(page.iter().map(id));
        // The job that the cursor names goes, and another one comes.
        remove(&jobs, seen.last().unwrap()).unwrap();
        add(&jobs, Job { created: 2000, ..job(None) }).unwrap();
        match next {
            Some(next) => cursor = Some(next.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, whole);
    for text in [
        "",
        "1",
        "-",
        "x-y",
        &whole[0],
        &format!("+1-{}", whole[0]),
        &format!("99999999999999999999-{}", whole[0]),
    ] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
}

fn told(jobs: &Jobs, id: &str) -> Vec<Value> {
    let messages = jobs.messages(id).map(|(_, messages)| messages).unwrap_or_default();
    messages.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect()
}

#[test]
fn each_end_of_a_job_is_a_message_also_after_a_kill() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let webhook = Webhook::new("https://example.org/".into(), vec!["completed".into()]);
    let id = add(&jobs, Job { webhook: Some(webhook), ..job(None) }).unwrap().0;
    // Failed, failed again and cancelled, before anybody looked.
    for _ in 0..2 {
        assert_eq!(take(&jobs), id);
        end(&jobs, &id, failed());
        ask(&jobs, &id, Action::Retry).unwrap();
    }
    ask(&jobs, &id, Action::Cancel).unwrap();
    let told_before = told(&jobs, &id);
    let states: Vec<&str> = told_before.iter().map(|body| body["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "canceled"]);
    let (_, messages) = jobs.messages(&id).unwrap();
    let ids: std::collections::BTreeSet<&String> = messages.iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), 3, "two ends have one number");
    jobs.delivered(&id, &messages[1].id);
    drop(jobs);
    let jobs = open(desk.path(), 9);
    until(|| jobs.messages(&id).is_some());
    assert_eq!(jobs.messages(&id).unwrap().1, [messages[0].clone(), messages[2].clone()]);
    [0, 2].iter().for_each(|at: &usize| jobs.delivered(&id, &messages[*at].id));
    assert!(jobs.messages(&id).is_none() && jobs.with_messages().is_empty());
    drop(jobs);
    let jobs = open(desk.path(), 9);
    assert!(jobs.messages(&id).is_none(), "an end is told twice");
    // With nobody to take the messages, their number ends.
    let asked = (0..99).take_while(|_| {
        ask(&jobs, &id, Action::Retry).and_then(|()| ask(&jobs, &id, Action::Cancel)).is_ok()
    });
    assert_eq!((asked.count(), told(&jobs, &id).len()), (8, 8));
}

#[test]
#[cfg(debug_assertions)]
fn a_webhook_hears_of_a_cancellation_when_it_is_saved() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let webhook = Webhook::new("https://example.org/".into(), vec!["completed".into()]);
    let id = add(&jobs, Job { webhook: Some(webhook), ..job(None) }).unwrap().0;
    let mut changes = jobs.watch();
    slow(desk.path(), Duration::from_millis(300));
    let saving = jobs.request(&id, Action::Cancel).unwrap().unwrap();
    assert!(status(&jobs, &id) == Status::Canceled && jobs.messages(&id).is_none());
    now(saving.done()).unwrap().unwrap();
    until(|| jobs.messages(&id).is_some());
    let record = std::fs::read_to_string(desk.path().join(&id).join(RECORD)).unwrap();
    assert!(record.contains("canceled"));
    // Whoever delivers it is told once more, behind the save.
    until(|| matches!(changes.try_recv(), Ok(Change::State(_))));
    until(|| matches!(changes.try_recv(), Ok(Change::State(_))));
}

#[test]
fn files_that_cannot_be_removed_are_tried_again() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let id = add(&jobs, job(None)).unwrap().0;
    ask(&jobs, &id, Action::Cancel).unwrap();
    let [away, home] = [desk.path().join("away"), desk.path().join(&id)];
    std::fs::rename(&home, &away).unwrap();
    // A file in the place of its folder, as a bad disk would refuse it.
    std::fs::write(&home, "").unwrap();
    let error = remove(&jobs, &id).unwrap_err();
    assert!(format!("{error:?}").contains("tried again"), "{error:?}");
    assert!(jobs.get(&id).is_err());
    std::fs::remove_file(&home).unwrap();
    std::fs::rename(&away, &home).unwrap();
    jobs.expire();
    assert!(!home.exists());
}

#[test]
fn webhooks_get_no_path_of_the_server_and_no_start_behind_the_end() {
    let desk = tempfile::tempdir().unwrap();
    let jobs = open(desk.path(), 9);
    let webhook = Webhook::new("https://example.org/".into(), Vec::new());
    let id = add(&jobs, Job { webhook: Some(webhook), ..job(None) }).unwrap().0;
    assert_eq!(take(&jobs), id);
    until(|| !told(&jobs, &id).is_empty());
    assert_eq!(told(&jobs, &id)[0]["status"], "processing");
    end(&jobs, &id, done());
    let bodies = told(&jobs, &id);
    assert!(
        bodies.len() == 1 && bodies[0]["status"] == "succeeded" && bodies[0]["file"].is_null(),
        "{bodies:?}"
    );
    let path = desk.path().display().to_string();
    assert!(jobs.messages(&id).unwrap().1.iter().all(|message| !message.body.contains(&path)));
    // Only a client on this machine can use the path.
    let file = |is_local: bool| jobs.shown(&id, &Viewer { is_local, ..viewer() }).unwrap()["file"].clone();
    assert!(file(false).is_null() && file(true).as_str().unwrap().starts_with(&path));
}

//! Tests of the queue: no files, so thousands of jobs take no time.

use std::time::{Duration, Instant};

use super::super::tests::{job, viewer};
use super::*;
use crate::id;
use crate::job::{Media, Webhook};

fn queue(devices: usize, waiting: usize) -> Queue {
    Queue::new(Limits { devices, waiting, keep: 1000, folder: PathBuf::from("/jobs") })
}

/// Adds a job whose record is saved.
fn add(queue: &mut Queue, job: Job) -> String {
    let id = queue.push(job).unwrap().0;
    let record = queue.record(&id).unwrap();
    assert_eq!(queue.saved(&record, true), AfterSave::Shown);
    id
}

/// Ends a run and saves that.
fn end(queue: &mut Queue, id: &str, device: usize, end: End, at: u64) {
    queue.finish(id, device, end, at);
    let record = queue.record(id).unwrap();
    assert_eq!(queue.saved(&record, true), AfterSave::Shown);
}

#[test]
fn a_change_while_the_end_is_being_saved_is_not_lost() {
    let mut queue = queue(1, 9);
    let id = add(&mut queue, job(None));
    queue.start_next(0, 1).unwrap();
    queue.finish(&id, 0, End::Failed { error: "no".into(), kind: "no".into() }, 2);
    let record = queue.record(&id).unwrap();
    assert_eq!((record.status, queue.get(&id).unwrap().status), (Status::Failed, Status::Processing));
    queue.request(&id, Action::Cancel, 3).unwrap();
    assert_eq!(queue.saved(&record, true), AfterSave::SaveAgain);
    assert!(queue.devices()[0].is_some());
    let record = queue.record(&id).unwrap();
    assert_eq!((record.status, record.completed), (Status::Canceled, Some(2)));
    assert_eq!(queue.saved(&record, true), AfterSave::Shown);
    assert_eq!((queue.get(&id).unwrap().status, &queue.devices()[0]), (Status::Canceled, &None));
}

#[test]
fn a_full_disk_keeps_no_end_back() {
    let mut queue = queue(1, 9);
    let id = add(&mut queue, job(None));
    queue.start_next(0, 1).unwrap();
    queue.finish(&id, 0, End::Done { frames: Some(1), memory: None }, 2);
    let record = queue.record(&id).unwrap();
    assert_eq!(queue.saved(&record, false), AfterSave::Shown);
    assert_eq!((queue.get(&id).unwrap().status, &queue.devices()[0]), (Status::Succeeded, &None));
}

#[test]
fn jobs_that_are_not_saved_yet_count_and_are_not_seen() {
    let mut queue = queue(1, 2);
    let ids = [0, 1].map(|_| queue.push(job(None)).unwrap().0);
    assert!(queue.push(job(None)).is_err() && queue.start_next(0, 1).is_none());
    assert!(queue.list(None, 9).0.is_empty() && queue.get(&ids[0]).is_err());
    let record = queue.record(&ids[0]).unwrap();
    assert_eq!(queue.saved(&record, false), AfterSave::Refused);
    assert_eq!(queue.saved(&record, true), AfterSave::Removed);
    assert!(queue.push(job(None)).is_ok());
}

/// What the queue knows by other means than its jobs.
fn check(queue: &Queue) {
    let mut waiting: Vec<&Job> =
        queue.entries.values().map(|entry| &entry.job).filter(|job| job.status == Status::Starting).collect();
    waiting.sort_by(|a, b| {
        a.rank.total_cmp(&b.rank).then(a.created.cmp(&b.created)).then_with(|| a.id.cmp(&b.id))
    });
    let waiting: Vec<(&str, bool)> = waiting.iter().map(|job| (job.id.as_str(), job.paused)).collect();
    let known: Vec<(&str, bool)> =
        queue.waiting.places().iter().map(|place| (place.id.as_str(), place.paused)).collect();
    assert_eq!(known, waiting);
    for (at, (id, _)) in waiting.iter().enumerate() {
        assert_eq!(queue.position(id), Some(at));
    }
    let count = queue.entries.len();
    assert_eq!((queue.newest.len(), queue.uploads.len(), queue.keys.len()), (count, count, count));
    let with_messages = queue
        .entries
        .values()
        .filter(|entry| entry.job.webhook.as_ref().is_some_and(|webhook| !webhook.pending.is_empty()));
    assert_eq!(queue.messages.len(), with_messages.count());
    let running = queue.entries.values().filter(|entry| entry.job.status == Status::Processing).count();
    assert_eq!(queue.devices.iter().flatten().count(), running);
}

#[test]
fn whatever_is_asked_the_order_and_the_lists_agree_with_the_jobs() {
    let mut random = 7_u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..20 {
        let mut queue = queue(3, 40);
        for now in 0..400 {
            let ids: Vec<String> = queue.entries.keys().cloned().collect();
            let some = ids.get(next(ids.len().max(1))).cloned().unwrap_or_default();
            let running = queue.devices.clone();
            match next(9) {
                0 | 1 => {
                    let media = Media::File { id: id::new().unwrap() };
                    let webhook = Some(Webhook::new("https://example.org".into(), Vec::new()));
                    let new = Job { media, webhook, created: now / 3, ..job(Some(&format!("key {now}"))) };
                    if queue.waiting.len() < 40 {
                        add(&mut queue, new);
                    }
                }
                2 => drop(queue.start_next(next(3), now)),
                3 => {
                    let device = next(3);
                    let ends = [
                        End::Stopped,
                        End::Done { frames: Some(1), memory: None },
                        End::Failed { error: "e".into(), kind: "k".into() },
                    ];
                    if let Some(Some(id)) = running.get(device) {
                        end(&mut queue, id, device, ends[next(3)].clone(), now);
                    }
                }
                4 => drop(queue.place(&some, next(50))),
                5 => drop(queue.remove(&some)),
                _ => {
                    let action = [Action::Cancel, Action::Pause, Action::Resume, Action::Retry][next(4)];
                    drop(queue.request(&some, action, now));
                }
            }
            check(&queue);
        }
    }
}

#[test]
fn ten_thousand_jobs_take_no_longer_than_ten() {
    const COUNT: usize = 10_000;
    let mut queue = queue(1, COUNT);
    let begun = Instant::now();
    let ids: Vec<String> = (0..COUNT as u64)
        .map(|created| {
            let media = Media::File { id: id::new().unwrap() };
            add(&mut queue, Job { media, created, ..job(Some(&created.to_string())) })
        })
        .collect();
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(queue.shown(id, &viewer()).unwrap()["position"], at);
        assert_eq!(queue.with_key(&at.to_string(), "hash").unwrap().as_ref(), Some(id));
        assert!(queue.uses(queue.get(id).unwrap().media.upload().unwrap()));
    }
    let (mut cursor, mut seen) = (None, 0);
    loop {
        let (page, next) = queue.list(cursor.as_ref(), 100);
        seen += page.len();
        cursor = match next {
            Some(next) => Some(next),
            None => break,
        };
    }
    assert_eq!(seen, COUNT);
    // Two hundred moves to one place need new numbers for all, four times.
    for at in 0..200 {
        queue.place(&ids[COUNT - 1 - at], 1).unwrap();
    }
    for id in &ids {
        queue.request(id, Action::Pause, 1).unwrap();
    }
    assert!(queue.start_next(0, 1).is_none());
    for id in &ids {
        queue.request(id, Action::Cancel, 2).unwrap();
        queue.remove(id).unwrap();
    }
    assert!(queue.list(None, 1).0.is_empty() && queue.uploads.is_empty() && queue.keys.is_empty());
    // A second on a machine that has nothing else to do. Sorting for each request takes minutes.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
